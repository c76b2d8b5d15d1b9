// A mark never says more than the sentence beside it, and what is planned never stands among what has happened.
import type { Locator, Page } from "@playwright/test";
import { ada, effect, expect, generate, headline, pressCancel, signIn, step, test } from "../fixtures.ts";

const THREE = ["ada@example.org", "bea@example.org", "cem@example.org"];

const mark = (within: Locator) => within.locator(".mark").first();
const verdict = (page: Page) => page.locator("section.verdict");
const section = (page: Page, name: string) => page.getByRole("region", { name, exact: true });

/** The effects that the record has, as the API tells them at this moment. */
async function recorded(page: Page, job: string): Promise<string[]> {
  const answer = await page.request.get(`/api/v1${job}`);
  const { effects } = (await answer.json()) as { effects: { what: string; outcome_text: string }[] };
  return effects.map(({ what, outcome_text }) => `${what}: ${outcome_text}`);
}

test.describe("by e-mail", () => {
  test.use({ setup: { mail: "smtp" } });

  test("all three refused: no tick anywhere", async ({ page, mail }) => {
    for (const recipient of THREE) mail.refuse(recipient);
    await signIn(page, ada);
    await generate(page, { recipients: THREE });
    await expect(headline(page)).toHaveText("Report saved; email refused for 3 of 3");
    await expect(step(page, "E-mail")).toContainText("3 refused");
    await expect(mark(step(page, "E-mail"))).toHaveClass("mark failed");
    await expect(mark(verdict(page))).toHaveClass("mark failed");
  });

  test("one of three refused: no tick on the step", async ({ page, mail }) => {
    mail.refuse("bea@example.org");
    await signIn(page, ada);
    await generate(page, { recipients: THREE });
    await expect(headline(page)).toHaveText("Report saved; email refused for 1 of 3");
    await expect(step(page, "E-mail")).toContainText("2 accepted, 1 refused");
    await expect(mark(step(page, "E-mail"))).toHaveClass("mark failed");
  });

  test("one of three without an answer: a question mark", async ({ page, mail }) => {
    mail.loseReply(2);
    await signIn(page, ada);
    await generate(page, { recipients: THREE });
    await expect(headline(page)).toHaveText(/unconfirmed/);
    await expect(step(page, "E-mail")).toContainText("2 accepted, 1 unconfirmed");
    await expect(mark(step(page, "E-mail"))).toHaveClass("mark doubt");
    await expect(mark(verdict(page))).toHaveClass("mark doubt");
  });

  test("a cancel that came too late is amber and leads to the correction", async ({ page, mail }) => {
    const reply = mail.hold("reply");
    await signIn(page, ada);
    await generate(page);
    await reply.reached;
    await pressCancel(page);
    reply.open();
    await expect(headline(page)).toHaveText("The cancel came too late. Report saved; email accepted by the mail service");
    await expect(mark(verdict(page))).toHaveClass("mark late");
    await expect(mark(step(page, "E-mail"))).toHaveClass("mark done");
    await verdict(page).getByRole("link", { name: "Send a correction" }).click();
    await expect(page.getByLabel("What is wrong, and what is right?")).toBeInViewport();
  });

  test("after a cancel, what was planned will not be sent", async ({ page, mail }) => {
    const second = mail.hold("recipient", 2);
    await signIn(page, ada);
    const job = await generate(page, { recipients: THREE });
    await second.reached;
    await expect(section(page, "What is planned")).toContainText("E-mail to cem@example.org");
    await expect(effect(page, "E-mail to ada@example.org")).toContainText("accepted by the mail service");
    await expect(effect(page, "E-mail to cem@example.org")).toHaveCount(0);
    expect(await recorded(page, job)).toContain("E-mail to cem@example.org: planned");
    await pressCancel(page);
    await expect(headline(page)).toHaveText("Cancelled. Report saved; email accepted for 1 of 3");
    await expect(section(page, "What is planned")).toHaveCount(0);
    await expect(section(page, "What will not happen")).toContainText(/E-mail to cem@example\.org\s*will not be sent/);
    await expect(effect(page, "E-mail to bea@example.org")).toContainText("broken off");
    expect(await recorded(page, job)).toContain("E-mail to cem@example.org: will not be sent");
    await expect(page.getByText("not started")).toHaveCount(0);
    second.open();
  });
});

test.describe("through a model", () => {
  test.use({ setup: { summarizer: "model" } });

  test("a long call is seen to go on, and what is planned stands apart from it", async ({ page, model }) => {
    const answer = model.hold();
    await signIn(page, ada);
    const job = await generate(page);
    await answer.reached;
    await expect(headline(page)).toHaveText("Summarizing");
    await expect(step(page, "Summarize")).toContainText("part 1 of 1");
    await expect(page.getByText("0 of 1")).toHaveCount(0);
    const under = page.getByText(/^Model call 1 of 1 to scripted .*: in flight, since /);
    const seconds = async () => Number(/for (\d+) s/.exec((await under.textContent()) ?? "")?.[1]);
    const first = await seconds();
    await expect.poll(seconds).toBeGreaterThan(first);
    await expect(effect(page, "Model call 1 of 1")).toContainText("in flight");
    await expect(section(page, "What is planned")).toContainText("E-mail to ada@example.org");
    await pressCancel(page);
    await expect(headline(page)).toHaveText("Cancelled. Nothing was saved or sent");
    for (const name of ["Save", "E-mail"]) {
      await expect(step(page, name)).toHaveClass("skipped");
      await expect(mark(step(page, name))).toHaveClass("mark skipped");
      await expect(step(page, name)).toContainText("will not");
    }
    expect(await recorded(page, job)).toEqual(expect.arrayContaining(["Report: will not be saved", "E-mail to ada@example.org: will not be sent"]));
    answer.open();
  });

  test("a job that fails sends nothing any more", async ({ page }) => {
    await signIn(page, ada);
    const job = await generate(page, { month: "2025-09" });
    await expect(headline(page)).toHaveText(/^Failed/);
    await expect(section(page, "What will not happen")).toContainText("will not be sent");
    await expect(section(page, "What has happened outside")).toContainText("Nothing.");
    expect(await recorded(page, job)).toEqual(["Report: will not be saved", "E-mail to ada@example.org: will not be sent"]);
  });

  test("a cancel from a list that is out of date says that it came too late", async ({ page, model, context, scripted }) => {
    const answer = model.hold();
    await signIn(page, ada);
    await generate(page, { title: "Workshop" });
    await answer.reached;
    const list = await context.newPage();
    await list.route("**/jobs/news", (route) => route.abort());
    await list.goto("/jobs");
    const row = list.getByRole("row").filter({ hasText: "Workshop" });
    await expect(row).toContainText("Summarizing");
    await expect(list.getByText(scripted ? /^Connection lost, last known state at / : /^As of /)).toBeVisible();
    answer.open();
    await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
    await row.getByRole("button", { name: "Cancel Workshop" }).click();
    await expect(list.getByText("The cancel came too late: the job had already finished.")).toBeVisible();
    await expect(headline(list)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
    await verdict(list).getByRole("link", { name: "Send a correction" }).click();
    await expect(list.getByLabel("What is wrong, and what is right?")).toBeInViewport();
  });
});
