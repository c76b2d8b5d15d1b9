// A restored copy: what had not ended in the backup says so, and waits for a person.
import { ada, cancelButton, expect, generate, headline, outbox, pressCancel, signIn, test } from "../fixtures.ts";
import { restore } from "../support/restore.ts";

const HELD = "Report saved; email not sent yet";
const UNKNOWN = /It waits for a person\. This is a restored copy\. What happened to this report after (the backup of .*|this copy was made) is not known here: it may have been finished and e-mailed already\./;

/** Of what the backup held; the original may have gone on since. */
const COPIED = /^Report saved; email outcome unconfirmed \(restored from (a backup of .*|a copy); the original may have sent it since\)$/;

// The page follows the server; while that is away it says so.
test.use({ tolerated: /Failed to fetch/ });

test("a job that had not ended says what is not known, and goes on when somebody says so", async ({ page, server, otherDevice }) => {
  await signIn(page, ada);
  const job = await generate(page, { hold: "Wait for my approval", title: "Team month" });
  await expect(headline(page)).toHaveText(HELD);
  await restore(server);

  await page.goto(job);
  await expect(headline(page)).toHaveText(COPIED);
  await expect(page.getByText(UNKNOWN)).toBeVisible();
  await expect(page.getByRole("button", { name: "Send now" })).toHaveCount(0);
  await expect(cancelButton(page)).toBeVisible();
  const phone = await otherDevice(ada);
  await phone.goto("/jobs");
  await expect(phone.getByRole("row").filter({ hasText: "Team month" })).toContainText("waits for a person");
  await expect(phone.getByRole("row").filter({ hasText: "Team month" })).toContainText("the original may have sent it since");

  await page.locator("summary", { hasText: "Go on" }).click();
  const act = page.getByRole("form", { name: "Go on" });
  await expect(act).toContainText("Go on only if you know that this has not happened already.");
  // Without a reason nothing goes on.
  await act.getByRole("button", { name: "Go on" }).click();
  await expect(act.getByLabel("How do you know?")).toBeFocused();
  await act.getByLabel("How do you know?").fill("Anna has got nothing.");
  await act.getByRole("button", { name: "Go on" }).click();
  await expect(act).toHaveCount(0);
  await expect(page.getByText(UNKNOWN)).toHaveCount(0);
  await expect(headline(page)).toHaveText(HELD);
  expect(outbox(server)).toEqual([]);

  await page.getByRole("button", { name: "Send now" }).click();
  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  expect(outbox(server)).toHaveLength(1);
  await page.locator("summary", { hasText: "History" }).click();
  await expect(page.getByText("ada@example.org decided: Go on. Anna has got nothing.")).toBeVisible();
});

test("a job that had not ended can be cancelled, and what is not known stays said", async ({ page, server }) => {
  await signIn(page, ada);
  const job = await generate(page, { hold: "Wait 5 minutes" });
  await expect(headline(page)).toHaveText(HELD);
  await restore(server);
  await page.goto(job);
  await pressCancel(page);
  await expect(headline(page)).toHaveText(new RegExp(COPIED.source.replace("^", "^Cancelled\\. ")));
  await expect(page.getByText(/^This is a restored copy\./)).toBeVisible();
  await expect(page.locator("summary", { hasText: "Go on" })).toHaveCount(0);
  expect(outbox(server)).toEqual([]);
});
