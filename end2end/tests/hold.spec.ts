// The wait before the e-mail: seen on every device, ended by a person or by its time, and always clean to cancel.
import { ada, consequence, effect, expect, generate, headline, outbox, pressCancel, signIn, step, test } from "../fixtures.ts";

const HELD = "Report saved; email not sent yet";

test("an e-mail that waits for approval is shown on every device and goes out when somebody says so", async ({
  page,
  server,
  otherDevice,
}) => {
  await signIn(page, ada);
  const job = await generate(page, { hold: "Wait for my approval", title: "Team month" });
  await expect(headline(page)).toHaveText(HELD);
  await expect(page.getByText("The e-mail waits for an approval.")).toBeVisible();
  await expect(consequence(page)).toHaveText("If you cancel now, the report stays saved; no email goes out.");
  await expect(step(page, "Hold")).toHaveClass("running");
  await expect(page.getByRole("link", { name: "Read the report" })).toBeVisible();
  expect(outbox(server)).toEqual([]);

  const phone = await otherDevice(ada);
  await phone.goto(job);
  await expect(headline(phone)).toHaveText(HELD);
  await expect(phone.locator("pre.message")).toContainText("The report for May 2026 is ready");
  await phone.getByRole("button", { name: "Send now" }).click();
  await expect(headline(phone)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  expect(outbox(server)).toHaveLength(1);
});

test("a cancel in a countdown is clean and at once", async ({ page, server }) => {
  await signIn(page, ada);
  await generate(page, { hold: "Wait 5 minutes" });
  await expect(headline(page)).toHaveText(HELD);
  await expect(page.getByText(/^The e-mail goes out in \d+ s\.$/)).toBeVisible();
  await pressCancel(page);
  await expect(headline(page)).toHaveText("Cancelled. Report saved; email not started");
  await expect(effect(page, "E-mail to ada@example.org")).toContainText("not started");
  expect(outbox(server)).toEqual([]);
});
