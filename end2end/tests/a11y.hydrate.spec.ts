// Every page, in every state, as axe sees it. axe is a script, so this needs a browser that runs some.
import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { ada, admin, cancelButton, expect, fillIn, generate, headline, signIn, test } from "../fixtures.ts";

test.use({ setup: { summarizer: "model", mail: "smtp" } });
// axe looks at a score of pages twice, which takes a minute on two idle cores.
test.describe.configure({ timeout: 300_000 });

/** No serious or critical violation of WCAG 2.2 AA, in either colour scheme. */
async function check(page: Page, name: string): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    const { violations } = await new AxeBuilder({ page })
      .withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"])
      .analyze();
    const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    const found = grave.map(({ id, nodes }) => `${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join("; ")}`);
    expect(found, `${name}, ${colorScheme}`).toEqual([]);
  }
}

test("no page has a grave violation", async ({ page, otherDevice, model, mail }) => {
  await page.goto("/sign-in");
  await check(page, "sign-in");
  await page.goto("/sign-in?problem=credentials&email=ada%40example.org");
  await check(page, "sign-in, refused");
  await signIn(page, ada);
  await check(page, "new report");
  await fillIn(page, { month: "2025-09", recipients: ["bert"] });
  await page.getByLabel("Time zone").fill("Mars/Olympus");
  await page.getByRole("button", { name: /^Generate/ }).click();
  await page.waitForURL(/draft=/);
  await check(page, "new report, refused");

  const answer = model.hold();
  const reply = mail.hold("reply");
  const running = await generate(page, { title: "Workshop" });
  await answer.reached;
  await expect(headline(page)).toHaveText("Summarizing");
  await check(page, "job, running");
  answer.open();
  await reply.reached;
  await page.goto(running);
  await cancelButton(page).click();
  await expect(headline(page)).toHaveText("Stopping…");
  await check(page, "job, stopping");
  reply.open();
  await page.goto(running);
  await expect(headline(page)).toHaveText("The cancel came too late. Report saved; email accepted by the mail service");
  await page.locator("summary", { hasText: "History" }).click();
  await check(page, "job, finished");
  const report = (await page.getByRole("link", { name: "Read the report" }).getAttribute("href")) ?? "";
  await page.goto(report);
  await check(page, "report");
  await page.locator("article .statements a").first().click();
  await expect(page.locator("#passage")).toBeVisible();
  await check(page, "document");
  await generate(page, { month: "2025-09" });
  await expect(headline(page)).toHaveText(/^Failed/);
  await check(page, "job, failed");
  await page.goto("/jobs");
  await check(page, "jobs");
  await page.goto("/jobs?state=queued");
  await check(page, "jobs, none");
  await page.goto("/account");
  await page.getByLabel("Name of a new token").fill("laptop");
  await page.getByRole("button", { name: "Make a token" }).click();
  await expect(page.getByLabel("New token", { exact: true })).toBeVisible();
  await check(page, "new token");
  await page.goto("/account");
  await check(page, "account");
  await page.goto("/account/assistant");
  await page.getByText("On the machine that Recount runs on").click();
  await check(page, "assistant");
  await page.getByRole("button", { name: "Make the token" }).click();
  await expect(page.getByText("The token Assistant is made.")).toBeVisible();
  await check(page, "assistant, with its token");
  await page.goto("/nowhere");
  await check(page, "nothing here");

  const office = await otherDevice(admin);
  await office.goto("/admin/effects");
  await expect(office.getByRole("heading", { name: "Effects" })).toBeVisible();
  await check(office, "effects");
});

test("what may be done after a job's end has no grave violation", async ({ page, otherDevice, mail }) => {
  const unfold = (on: Page) => on.locator("details").evaluateAll((all) => all.forEach((one) => one.setAttribute("open", "")));
  mail.loseReply();
  await signIn(page, ada);
  const job = await generate(page);
  await expect(headline(page)).toHaveText(/unconfirmed$/);
  await unfold(page);
  await check(page, "job, unconfirmed");
  const office = await otherDevice(admin);
  await office.goto(job);
  await check(office, "job, unconfirmed, for an administrator");
  await office.getByRole("link", { name: /^What became of it/ }).click();
  await expect(office.getByLabel("What did you see?")).toBeVisible();
  await unfold(office);
  await check(office, "effect, unconfirmed");
  await office.getByLabel("What did you see?").fill("It is in the log.");
  await office.getByRole("button", { name: "It was accepted" }).click();
  await expect(office.locator("#outcome")).toHaveText(/^accepted/);
  await check(office, "effect, settled");

  await page.goto(job);
  const report = (await page.getByRole("link", { name: "Read the report" }).getAttribute("href")) ?? "";
  await unfold(page);
  await page.getByLabel("What is wrong, and what is right?").fill("It was another month.");
  await page.getByRole("button", { name: "Send correction" }).click();
  await expect(headline(page)).toHaveText(/^Correction accepted/);
  await check(page, "correction");
  await page.goto(`${job}?said=reason_missing`);
  await unfold(page);
  await page.getByLabel("Why is it withdrawn?").fill("It was another month.");
  await page.getByRole("button", { name: "Withdraw the report" }).click();
  await expect(page.getByText(/^The report is withdrawn/)).toBeVisible();
  await check(page, "job, withdrawn");
  await page.goto(report);
  await expect(page.getByRole("heading", { name: /^Withdrawn/ })).toBeVisible();
  await check(page, "report, withdrawn");

  const reply = mail.hold("reply", 2);
  const stuck = await generate(page);
  await reply.reached;
  await page.goto(stuck);
  await cancelButton(page).click();
  await expect(headline(page)).toHaveText("Stopping…");
  await office.goto(stuck);
  await unfold(office);
  await check(office, "job, stopping, for an administrator");
  reply.open();
});
