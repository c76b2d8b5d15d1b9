// What people do about a job after its end: settle what is unconfirmed, send again, correct, withdraw, delete.
import type { Page } from "@playwright/test";
import { ada, admin, bob, effect, expect, generate, headline, outbox, signIn, test } from "../fixtures.ts";
import type { MailServer } from "../support/mail-server.ts";

const ACCEPTED = "Report saved; email accepted by the mail service";
const WRITTEN = "Report saved; written to the outbox folder, no e-mail was sent";
const UNCONFIRMED = "Report saved; email outcome unconfirmed";

/** Unfolds what is behind these words. */
const unfold = (page: Page, words: string) => page.locator("summary", { hasText: words }).click();

/** A value of a message's head, unfolded (RFC 5322, section 2.2.3). */
function header(message: string, name: string): string {
  const head = message.split("\r\n\r\n")[0]?.replace(/\r\n[ \t]+/g, " ") ?? "";
  return new RegExp(`^${name}: (.*)$`, "im").exec(head)?.[1] ?? "";
}

/** A job whose only message was taken without an answer. */
async function unconfirmed(page: Page, mail: MailServer): Promise<string> {
  mail.loseReply();
  await signIn(page, ada);
  const job = await generate(page, { title: "Workshop" });
  await expect(headline(page)).toHaveText(UNCONFIRMED);
  return job;
}

test.describe("an unconfirmed e-mail", () => {
  test.use({ setup: { mail: "smtp" } });

  test("is settled as accepted by an administrator who writes what they saw", async ({ page, mail, otherDevice }) => {
    const job = await unconfirmed(page, mail);
    const office = await otherDevice(admin);
    await office.goto(job);
    await office.getByRole("link", { name: "What became of it: E-mail to ada@example.org" }).click();
    const settle = office.getByRole("region", { name: "What became of it?" });
    await expect(settle).toContainText(header(mail.taken[0]?.text ?? "", "Message-ID"));
    await expect(office.getByText("Nowhere: no place to look at is set up.", { exact: false })).toBeVisible();

    // Without a text nothing is decided, whichever way it is missing.
    await settle.getByRole("button", { name: "It was accepted" }).click();
    await expect(settle.getByLabel("What did you see?")).toBeFocused();
    await settle.getByLabel("What did you see?").fill("  ");
    await settle.getByRole("button", { name: "It was accepted" }).click();
    await expect(office.getByRole("alert")).toHaveText("Nothing was changed: the text is missing. Write it and send the form again.");
    await expect(office.locator("#outcome")).toHaveText("unconfirmed");

    await settle.getByLabel("What did you see?").fill("The log of 12:03 says: queued as 4711.");
    await settle.getByRole("button", { name: "It was accepted" }).click();
    await expect(office.locator("#outcome")).toHaveText("accepted by the mail service");
    await expect(settle).toHaveCount(0);
    const decided = office.getByRole("region", { name: "What people decided" }).getByRole("row").nth(1);
    await expect(decided).toContainText(/you\s*It was accepted\s*The log of 12:03 says: queued as 4711\./);

    await page.goto(job);
    await expect(headline(page)).toHaveText(ACCEPTED);
    await expect(effect(page, "E-mail to ada@example.org")).toContainText("admin@example.org looked into it: The log of 12:03");
    expect(mail.taken).toHaveLength(1);
  });

  test("is settled as not accepted, and a second copy still needs the warning: a word is no proof", async ({ page, mail, otherDevice }) => {
    const job = await unconfirmed(page, mail);
    const office = await otherDevice(admin);
    await office.goto(job);
    await office.getByRole("link", { name: /^What became of it/ }).click();
    await office.getByLabel("What did you see?").fill("Nothing in the log between 12:00 and 12:10.");
    await office.getByRole("button", { name: "It was not accepted" }).click();
    await expect(office.locator("#outcome")).toHaveText("not accepted, as a person attests");
    await page.goto(job);
    await expect(headline(page)).toHaveText("Report saved; email not sent");
    await unfold(page, "Send again to ada@example.org");
    await expect(page.getByRole("checkbox", { name: "I know that ada@example.org may get this message twice." })).toBeVisible();
  });

  test("is sent again behind the warning, once, with the same bytes", async ({ page, mail }) => {
    const job = await unconfirmed(page, mail);
    await unfold(page, "Send again to ada@example.org");
    const again = page.getByRole("button", { name: "Send again" });
    await page.getByLabel("Why is it sent again?").fill("Ada has not got it.");
    await again.click();
    // The browser asks for the tick first.
    await expect(page.getByRole("checkbox", { name: "I know that ada@example.org may get this message twice." })).toBeFocused();
    expect(mail.taken).toHaveLength(1);
    await page.getByRole("checkbox").check();
    const form = page.getByRole("form", { name: "Send again to ada@example.org" });
    const action = (await form.getAttribute("action")) ?? "";
    const key = await form.locator('input[name="key"]').inputValue();
    await again.dblclick();
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("Second copy: Workshop, May 2026");
    // A second click that a browser does send, as the first one did, leads to the same mailing.
    const repeated = await page.request.post(action, { form: { key, why: "Ada has not got it.", sure: "yes" } });
    expect(repeated.url()).toBe(page.url());
    await expect(headline(page)).toHaveText("Second copy accepted by the mail service");
    await expect(page.getByRole("link", { name: "Start again with another month" })).toHaveCount(0);
    expect(mail.taken).toHaveLength(2);
    expect(mail.taken[1]).toEqual(mail.taken[0]);
    expect(header(mail.taken[1]?.text ?? "", "Message-ID")).toMatch(/^<.+@.+>$/);

    await page.getByRole("link", { name: "Go to the report's job" }).click();
    await page.waitForURL(`**${job}`);
    // The first one is as unconfirmed as before: the second proves nothing about it.
    await expect(headline(page)).toHaveText(UNCONFIRMED);
    const mailings = page.getByRole("region", { name: "Mailings about this report" }).getByRole("row");
    await expect(mailings).toHaveCount(2);
    await expect(mailings.nth(1)).toContainText("Second copy to ada@example.org");
    await expect(mailings.nth(1)).toContainText("Second copy accepted by the mail service");
  });

  test("offers its owner nothing that takes an administrator", async ({ page, mail, otherDevice }) => {
    const job = await unconfirmed(page, mail);
    await expect(page.getByText("An administrator can look into it and say what became of it.")).toBeVisible();
    await expect(page.locator('a[href^="/admin"]')).toHaveCount(0);
    // Deleting the record would leave nobody to settle it.
    await expect(page.getByText("Delete the job")).toHaveCount(0);
    const office = await otherDevice(admin);
    await office.goto(job);
    const path = (await office.getByRole("link", { name: /^What became of it/ }).getAttribute("href")) ?? "";
    expect((await page.goto(path))?.status()).toBe(403);
  });
});

test("a withdrawn report's link says so, and nobody reads it any more", async ({ page, otherDevice }) => {
  await signIn(page, ada);
  const job = await generate(page, { title: "Workshop", recipients: [ada.email, bob.email] });
  await expect(headline(page)).toHaveText(WRITTEN);
  const report = (await page.getByRole("link", { name: "Read the report" }).getAttribute("href")) ?? "";
  await unfold(page, "Withdraw the report");
  await page.getByLabel("Why is it withdrawn?").fill("The figures are of another month.");
  await page.getByRole("button", { name: "Withdraw the report" }).click();
  await expect(page.getByText(/^The report is withdrawn, on .* by you\.$/)).toBeVisible();
  await expect(page.getByRole("link", { name: "Read the report" })).toHaveCount(0);
  await expect(effect(page, "Withdrawal of the report")).toContainText("withdrawn");

  const reader = await otherDevice(bob);
  const answer = await reader.goto(report);
  expect(answer?.status()).toBe(410);
  await expect(reader.getByRole("heading", { level: 1 })).toHaveText("Withdrawn: Workshop, May 2026");
  await expect(reader.getByText(/^This report was withdrawn on .* by ada@example\.org\.$/)).toBeVisible();
  await expect(reader.getByText("The figures are of another month.")).toBeVisible();
  await expect(reader.getByRole("navigation", { name: "Main" })).toBeVisible();
  expect((await reader.request.get(`${report}/report.md`)).status()).toBe(410);

  await page.goto("/jobs");
  const row = page.getByRole("row", { name: "Workshop, May 2026" });
  await expect(row).toBeVisible();
  await expect(row.getByRole("link", { name: "Read" })).toHaveCount(0);
  await row.getByRole("link", { name: "Workshop, May 2026" }).click();
  await page.waitForURL(`**${job}`);
  await expect(page.locator("summary", { hasText: "Withdraw the report" })).toHaveCount(0);
});

test("a correction answers the message that had the link", async ({ page, server }) => {
  await signIn(page, ada);
  const job = await generate(page, { title: "Workshop", recipients: ["ada@example.org", "bea@example.org"] });
  await expect(headline(page)).toHaveText(WRITTEN);
  const first = new Map(outbox(server).map((message) => [header(message, "To"), header(message, "Message-ID")]));
  await unfold(page, "Send a correction");
  await expect(page.getByText("ada@example.org, bea@example.org", { exact: true })).toBeVisible();
  await page.getByLabel("What is wrong, and what is right?").fill("The workshop was on 12 May.\nNot on 13 May.");
  await page.getByRole("button", { name: "Send correction" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Correction: Workshop, May 2026");
  await expect(headline(page)).toHaveText("Correction written to the outbox folder, no e-mail was sent");
  await expect(page.getByRole("region", { name: "What the correction says" })).toContainText("The workshop was on 12 May.");
  await expect(page.locator("summary", { hasText: "Send a correction" })).toHaveCount(0);

  const corrections = outbox(server).filter((message) => header(message, "In-Reply-To"));
  expect(corrections).toHaveLength(2);
  for (const message of corrections) {
    expect(header(message, "In-Reply-To")).toBe(first.get(header(message, "To")));
    expect(message).toContain("The workshop was on 12 May.");
  }
  await page.getByRole("navigation", { name: "Breadcrumb" }).getByRole("link", { name: "Workshop, May 2026" }).click();
  await page.waitForURL(`**${job}`);
  await expect(page.getByRole("link", { name: "Correction to ada@example.org, bea@example.org" })).toBeVisible();
});

test("a deleted job is gone, and its effects stay with title and owner", async ({ page, otherDevice }) => {
  await signIn(page, ada);
  const job = await generate(page, { title: "Workshop" });
  await expect(headline(page)).toHaveText(WRITTEN);
  const report = (await page.getByRole("link", { name: "Read the report" }).getAttribute("href")) ?? "";
  await unfold(page, "Delete the job");
  await page.getByLabel("Why is it deleted?").fill("It was a trial.");
  await page.getByRole("button", { name: "Delete the job" }).dblclick();
  await expect(page.getByText("The job is deleted. Its effects stay in the history.")).toBeVisible();
  await expect(page.getByText("There are no jobs.")).toBeVisible();
  // A second click that a browser does send is told the same.
  const repeated = await page.request.post(`${job}/deletion`, { form: { why: "It was a trial." } });
  expect(repeated.url()).toContain("/jobs?said=deleted");
  for (const path of [job, report]) expect((await page.goto(path))?.status()).toBe(404);

  const office = await otherDevice(admin);
  await office.goto(`/admin/effects?job=${job.split("/").pop()}`);
  const rows = office.getByRole("table").getByRole("row");
  for (const what of ["E-mail to ada@example.org", "Deletion of the job"]) {
    const row = rows.filter({ hasText: what });
    await expect(row).toContainText("Workshop, May 2026");
    await expect(row).toContainText("ada@example.org");
  }
  await rows.filter({ hasText: "Deletion of the job" }).getByRole("link").click();
  await expect(office.getByRole("region", { name: "What people decided" })).toContainText("It was a trial.");
});

test.describe("while the mail server holds its answer", () => {
  test.use({ setup: { mail: "smtp" } });

  test("an administrator accounts for the job without waiting, and the answer still counts", async ({
    page,
    mail,
    scripted,
    otherDevice,
  }) => {
    const reply = mail.hold("reply");
    await signIn(page, ada);
    const job = await generate(page);
    await reply.reached;
    const cancel = page.locator("form.cancel button");
    await expect(async () => {
      if (await cancel.isVisible()) await cancel.click({ timeout: 5_000 });
      await expect(cancel).toBeHidden({ timeout: 5_000 });
    }).toPass();
    await expect(headline(page)).toHaveText("Stopping…");
    await expect(page.getByText(/^Waiting since \d\d:\d\d:\d\d, for \d+ s\.$/)).toBeVisible();
    await expect(page.getByText("Account for it now")).toHaveCount(0);

    const office = await otherDevice(admin);
    await office.goto(job);
    if (scripted) await unfold(office, "Account for it now");
    else {
      await expect(async () => {
        await unfold(office, "Account for it now");
        await office.getByRole("link", { name: "Stop the reloading" }).click({ timeout: 1_000 });
        await office.waitForURL(/reload=off/, { timeout: 1_000 });
      }).toPass();
    }
    await expect(office.getByText("The e-mail to ada@example.org would be unconfirmed", { exact: false })).toBeVisible();
    await office.getByLabel("Why is it not waited for?").fill("The mail server is being replaced.");
    await office.getByRole("button", { name: "Account for it now" }).click();
    await expect(headline(office)).toHaveText("Cancelled. Report saved; email outcome unconfirmed");
    await unfold(office, "History");
    await expect(office.getByText(/^Accounted for now by admin@example\.org, .* The mail server is being replaced\.$/)).toBeVisible();
    await page.goto(job);
    await expect(headline(page)).toHaveText("Cancelled. Report saved; email outcome unconfirmed");

    // The worker was still listening: what it hears is evidence, and evidence settles.
    reply.open();
    await expect(async () => {
      await page.goto(job);
      await expect(headline(page)).toHaveText("Cancelled. Report saved; email accepted for 1 of 1", { timeout: 1_000 });
    }).toPass();
    expect(mail.taken).toHaveLength(1);
  });
});
