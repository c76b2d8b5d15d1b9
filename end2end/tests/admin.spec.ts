// What only administrators see.
import { ada, admin, expect, generate, headline, signIn, test } from "../fixtures.ts";

test.use({ setup: { summarizer: "model", mail: "smtp" } });

test("every effect is listed with its proof, and the list can be filtered", async ({ page, otherDevice }) => {
  await signIn(page, ada);
  await generate(page);
  await expect(headline(page)).toHaveText("Report saved; email accepted by the mail service");

  const office = await otherDevice(admin);
  await office.goto("/admin/effects");
  const rows = office.getByRole("table").getByRole("row");
  await expect(rows.filter({ hasText: "E-mail to ada@example.org" })).toContainText("250 2.0.0 Ok: queued as 1");
  await expect(rows.filter({ hasText: "Model call 1 of 1" })).toContainText("answered");
  await expect(rows.filter({ hasText: "saved" })).toHaveCount(1);
  await expect(rows.filter({ hasText: "ada@example.org" })).toHaveCount(3);

  await office.getByLabel("Kind").selectOption({ label: "E-mails" });
  await office.getByRole("button", { name: "Show" }).click();
  await expect(rows.filter({ hasText: "E-mail to" })).toHaveCount(1);
  await expect(rows).toHaveCount(2);
  await expect(office.getByLabel("Kind")).toHaveValue("email");
  await office.getByLabel("Outcome").selectOption({ label: "Unconfirmed" });
  await office.getByRole("button", { name: "Show" }).click();
  await expect(office.getByText("Nothing to show.")).toBeVisible();
  await office.getByRole("link", { name: "Show all" }).click();
  const sent = rows.filter({ hasText: "E-mail to" });
  await sent.getByRole("link", { name: /E-mail to/ }).click();
  await expect(office.getByText("250 2.0.0 Ok: queued as 1").first()).toBeVisible();
  await office.goBack();
  await sent.getByRole("link", { name: /May 2026/ }).click();
  await expect(headline(office)).toHaveText("Report saved; email accepted by the mail service");
});

test("an effect in flight stands at the top and is nothing that a person is called for", async ({ page, mail, otherDevice }) => {
  const reply = mail.hold("reply");
  await signIn(page, ada);
  await generate(page);
  await reply.reached;
  const office = await otherDevice(admin);
  await office.goto("/admin/effects");
  await expect(office.getByRole("heading", { name: "Open (1)" })).toBeVisible();
  await expect(office.getByRole("link", { name: "Effects", exact: true })).toBeVisible();
  // It is not listed among the settled ones as well.
  await expect(office.getByRole("row", { name: "E-mail to ada@example.org" })).toHaveCount(1);
  reply.open();
  await expect(headline(page)).toHaveText("Report saved; email accepted by the mail service");
  await office.reload();
  await expect(office.getByRole("heading", { name: /^Open/ })).toHaveCount(0);
});

test("users may not see the list", async ({ page }) => {
  await signIn(page, ada);
  await expect(page.getByRole("link", { name: "Effects" })).toHaveCount(0);
  const answer = await page.goto("/admin/effects");
  expect(answer?.status()).toBe(403);
  await expect(page.getByRole("heading", { name: "Not for you to see" })).toBeVisible();
});

test("administrators see everybody's jobs", async ({ page, otherDevice }) => {
  await signIn(page, ada);
  const job = await generate(page);
  await expect(headline(page)).toHaveText("Report saved; email accepted by the mail service");
  const office = await otherDevice(admin);
  await office.goto("/jobs");
  await expect(office.getByRole("row", { name: "May 2026" })).toContainText("ada@example.org");
  await office.goto(job);
  await expect(headline(office)).toHaveText("Report saved; email accepted by the mail service");
});
