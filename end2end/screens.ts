// Takes pictures of all pages and states, wide and narrow, light and dark. Not a test: it is for looking.
import type { Page } from "@playwright/test";
import { fileURLToPath } from "node:url";
import { ada, admin, cancelButton, expect, fillIn, generate, headline, signIn, test } from "./fixtures.ts";
import { restore } from "./support/restore.ts";

const FOLDER = fileURLToPath(new URL("../target/screens/", import.meta.url));
const THREE = ["ada@example.org", "bea@example.org", "cem@example.org"];

async function take(page: Page, name: string): Promise<void> {
  for (const [size, width, height] of [
    ["wide", 1280, 900],
    ["narrow", 375, 800],
  ] as const) {
    for (const colorScheme of ["light", "dark"] as const) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.screenshot({ path: `${FOLDER}${name}-${size}-${colorScheme}.png`, fullPage: true });
    }
  }
}

test.describe("without people", () => {
  test.use({ setup: { people: false } });
  test("set-up", async ({ page }) => {
    await page.goto("/");
    await take(page, "set-up");
  });
});

test("restored", async ({ page, server }) => {
  await signIn(page, ada);
  const job = await generate(page, { hold: "Wait for my approval", title: "Team month" });
  await expect(headline(page)).toHaveText("Report saved; email not sent yet");
  await restore(server);
  await page.goto(job);
  await take(page, "job-restored");
  await page.locator("summary", { hasText: "Go on" }).click();
  await take(page, "job-restored-unfolded");
  await page.goto("/jobs");
  await take(page, "jobs-restored");
});

test.describe("collecting", () => {
  test.use({ setup: { archive: true } });
  test("job, collecting and cancelled", async ({ page }) => {
    await signIn(page, ada);
    await generate(page, { sources: ["Archive"] });
    await expect(page.getByRole("progressbar")).toBeVisible();
    await take(page, "job-collecting");
    await cancelButton(page).click();
    await expect(headline(page)).toHaveText(/^Cancelled/);
    await take(page, "job-cancelled-nothing");
  });
});

test("assistant", async ({ page, otherDevice }) => {
  await signIn(page, ada);
  await page.goto("/account/assistant");
  await take(page, "assistant");
  await page.getByRole("radio", { name: "It may only look." }).check();
  await page.getByRole("button", { name: "Make the token" }).click();
  await expect(page.getByText("The token Assistant is made.")).toBeVisible();
  await take(page, "assistant-token");
  await page.reload();
  await expect(page.getByRole("alert")).toBeVisible();
  await take(page, "assistant-token-again");
  await page.goto("/account");
  await take(page, "account-token-that-looks");
  const office = await otherDevice(admin);
  await office.goto("/account/assistant?problem=name");
  await office.getByText("On the machine that Recount runs on").click();
  await take(office, "assistant-admin");
});

test.describe("with peers", () => {
  test.use({ setup: { summarizer: "model", mail: "smtp", lease: 3 } });
  test("everything else", async ({ page, server, model, mail, otherDevice }) => {
    await page.goto("/sign-in");
    await take(page, "sign-in");
    await page.goto("/sign-in?problem=credentials&email=ada%40example.org");
    await take(page, "sign-in-refused");
    await signIn(page, ada);
    await fillIn(page);
    await expect(page.locator("#counts")).toContainText("3 documents");
    await take(page, "form");
    await fillIn(page, { month: "2025-09", recipients: ["bert", "Bea <bea@example.org>"] });
    await page.getByLabel("Time zone").fill("Mars/Olympus");
    await page.getByRole("button", { name: /^Generate/ }).click();
    await page.waitForURL(/draft=/);
    await take(page, "form-refused");
    await page.goto("/");
    await page.getByLabel("Month", { exact: true }).fill("2026-05");
    await page.getByLabel("Your own files").setInputFiles([
      { name: "2026-05-12-visit.txt", mimeType: "text/plain", buffer: Buffer.from("The auditors visited the workshop.") },
      { name: "notes-of-a-long-conversation-with-the-neighbours-about-noise.txt", mimeType: "text/plain", buffer: Buffer.from("x") },
      { name: "large.txt", mimeType: "text/plain", buffer: Buffer.from("x".repeat(2_000_000)) },
    ]);
    await page.waitForURL(/draft=/);
    await expect(page.getByRole("list", { name: "Uploaded files" })).toBeVisible();
    await take(page, "form-uploads");

    const answer = model.hold();
    let reply = mail.hold("reply");
    const first = await generate(page, { title: "Workshop", recipients: THREE });
    await answer.reached;
    await expect(headline(page)).toHaveText("Summarizing");
    await take(page, "job-summarizing");
    answer.open();
    await reply.reached;
    await expect(headline(page)).toHaveText(/^E-mailing/);
    await take(page, "job-e-mailing");
    await cancelButton(page).click();
    await expect(headline(page)).toHaveText("Stopping…");
    await take(page, "job-stopping");
    reply.open();
    await expect(headline(page)).toHaveText(/^Cancelled/);
    await take(page, "job-cancelled-one-of-three");

    await generate(page);
    await expect(headline(page)).toHaveText(/^Report saved/);
    await page.locator("summary", { hasText: "History" }).click();
    await take(page, "job-finished");
    await page.getByRole("link", { name: "Read the report" }).click();
    await expect(page.locator("article")).toBeVisible();
    await take(page, "report");
    await page.locator("article .statements a").first().click();
    await expect(page.locator("#passage")).toBeVisible();
    await take(page, "document");

    await generate(page, { month: "2025-09" });
    await expect(headline(page)).toHaveText(/^Failed/);
    await take(page, "job-failed");

    reply = mail.hold("reply", 3);
    const doubtful = await generate(page, { title: "Accounts" });
    await reply.reached;
    await expect(headline(page)).toHaveText(/^E-mailing/);
    await server.kill("SIGKILL");
    await expect(page.getByText(/^Connection lost/)).toBeVisible();
    await take(page, "job-connection-lost");
    const failed = page.waitForEvent("requestfailed");
    await page.getByRole("button", { name: "Cancel" }).click();
    await failed;
    await expect(page.getByText("Cancel not confirmed, checking…")).toBeVisible();
    await take(page, "job-cancel-not-confirmed");
    await server.start();
    await page.goto(doubtful);
    await expect(headline(page)).toHaveText(/unconfirmed$/);
    await take(page, "job-unconfirmed");

    await page.goto("/jobs");
    await take(page, "jobs");
    await page.goto("/jobs?state=queued");
    await take(page, "jobs-none");
    await page.goto("/account");
    await page.getByLabel("Name of a new token").fill("laptop");
    await page.getByRole("button", { name: "Make a token" }).click();
    await expect(page.getByLabel("New token", { exact: true })).toBeVisible();
    await take(page, "new-token");
    await page.goto("/account");
    await take(page, "account");
    await page.goto("/nowhere");
    await take(page, "nothing-here");
    const office = await otherDevice(admin);
    await office.goto("/admin/effects");
    await take(office, "effects");
    await office.goto("/jobs");
    await take(office, "jobs-of-everyone");
    await office.goto(first);
    await take(office, "job-of-somebody-else");
  });
});

test.describe("afterwards", () => {
  test.use({ setup: { mail: "smtp" } });
  test("what is done after a job's end, or instead of waiting for it", async ({ page, mail, otherDevice }) => {
    const unfold = (on: Page) => on.locator(".afterwards details").evaluateAll((all) => all.forEach((one) => one.setAttribute("open", "")));
    mail.loseReply();
    await signIn(page, ada);
    const office = await otherDevice(admin);
    const doubtful = await generate(page, { title: "Accounts", recipients: THREE });
    await expect(headline(page)).toHaveText(/unconfirmed$/);
    await take(page, "afterwards");
    await unfold(page);
    await take(page, "afterwards-unfolded");
    await office.goto(doubtful);
    await take(office, "afterwards-admin");
    await office.getByRole("link", { name: /^What became of it/ }).click();
    await expect(office.getByLabel("What did you see?")).toBeVisible();
    await take(office, "effect-unconfirmed");
    await office.getByLabel("What did you see?").fill(" ");
    await office.getByRole("button", { name: "It was accepted" }).click();
    await expect(office.getByRole("alert")).toBeVisible();
    await take(office, "effect-reason-missing");

    await unfold(page);
    await page.getByLabel("Why is it sent again?").fill("Ada has not got it.");
    await page.getByRole("checkbox").check();
    await page.getByRole("button", { name: "Send again" }).click();
    await expect(headline(page)).toHaveText("Second copy accepted by the mail service");
    await take(page, "second-copy");
    await office.getByLabel("What did you see?").fill("Line 4711 of /var/log/mail.log:\nstatus=sent (250 2.0.0 Ok: queued as 1)");
    await office.getByRole("button", { name: "It was accepted" }).click();
    await expect(office.locator("#outcome")).toHaveText(/^accepted/);
    await take(office, "effect-settled");

    await page.goto(doubtful);
    await unfold(page);
    await page.getByLabel("What is wrong, and what is right?").fill("The workshop was on 12 May, not on 13 May.");
    await page.getByRole("button", { name: "Send correction" }).click();
    await expect(headline(page)).toHaveText("Correction accepted by the mail service");
    await take(page, "correction");
    await page.goto(doubtful);
    const report = (await page.getByRole("link", { name: "Read the report" }).getAttribute("href")) ?? "";
    await unfold(page);
    await page.getByLabel("Why is it withdrawn?").fill("The figures are of another month.");
    await page.getByRole("button", { name: "Withdraw the report" }).click();
    await expect(page.getByText(/^The report is withdrawn/)).toBeVisible();
    await take(page, "withdrawn");
    await page.goto(report);
    await expect(page.getByRole("heading", { name: /^Withdrawn/ })).toBeVisible();
    await take(page, "report-withdrawn");
    await page.goto(doubtful);
    await unfold(page);
    await page.getByLabel("Why is it deleted?").fill("It was a trial.");
    await page.getByRole("button", { name: "Delete the job" }).click();
    await expect(page.getByText(/^The job is deleted/)).toBeVisible();
    await take(page, "jobs-deleted");

    const reply = mail.hold("reply", 7);
    const stuck = await generate(page, { title: "Stuck" });
    await reply.reached;
    await page.goto(stuck);
    await cancelButton(page).click();
    await expect(headline(page)).toHaveText("Stopping…");
    await office.goto(stuck);
    await office.locator("summary", { hasText: "Account for it now" }).click();
    await take(office, "stopping-account-now");
    reply.open();
  });
});
