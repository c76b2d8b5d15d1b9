// From signing in to the report, its sources and the mail.
import { ada, effect, expect, generate, headline, outbox, signIn, step, test } from "../fixtures.ts";

test("a report is made, cites its sources and is announced by mail", async ({ page, server }) => {
  await signIn(page, ada);
  const job = await generate(page, { title: "Workshop" });

  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Workshop, May 2026");
  for (const name of ["Collect", "Summarize", "Save", "E-mail"]) await expect(step(page, name)).toHaveClass("done");
  await expect(effect(page, "E-mail to ada@example.org")).toContainText("written to the outbox folder, no e-mail was sent");

  await page.getByRole("link", { name: "Read the report" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Workshop, May 2026");
  const report = new URL(page.url()).pathname;
  const cited = page.locator("article .statements li").first();
  const statement = (await cited.innerText()).replace(/\s*\[\d+\]\s*/g, "").trim();
  await cited.getByRole("link").first().click();
  // The whole passage is marked; the statement was taken from it.
  await expect(page.locator("#passage")).toBeInViewport();
  expect(await page.locator("#passage").innerText()).toContain(statement.slice(0, 40));

  const messages = outbox(server);
  expect(messages).toHaveLength(1);
  expect(messages[0]).toContain("To: ada@example.org");
  expect(messages[0]).toContain(`${server.url}${report}`);
  await page.goto(job);
  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
});
