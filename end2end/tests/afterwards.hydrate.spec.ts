// What a script adds after a job's end: the page reads its record again when somebody comes back to it.
import { ada, admin, effect, expect, generate, headline, signIn, test } from "../fixtures.ts";

test.use({ setup: { mail: "smtp" } });

test("the page of a job that has ended is brought up to date, and what is being written stays", async ({
  page,
  mail,
  otherDevice,
}) => {
  mail.loseReply();
  await signIn(page, ada);
  const job = await generate(page, { recipients: ["ada@example.org", "bea@example.org"] });
  await expect(headline(page)).toHaveText("Report saved; email outcome unconfirmed");
  await page.locator("summary", { hasText: "Withdraw the report" }).click();
  const why = page.getByLabel("Why is it withdrawn?");
  await why.fill("The figures are");

  const office = await otherDevice(admin);
  await office.goto(job);
  await office.getByRole("link", { name: /^What became of it/ }).click();
  await office.getByLabel("What did you see?").fill("It is in the log.");
  await office.getByRole("button", { name: "It was accepted" }).click();
  await expect(office.locator("#outcome")).toHaveText("accepted by the mail service");

  await expect(effect(page, "E-mail to ada@example.org")).toContainText("unconfirmed");
  await page.evaluate(() => window.dispatchEvent(new Event("focus")));
  await expect(headline(page)).toHaveText("Report saved; email accepted by the mail service");
  await expect(page.locator("summary", { hasText: "Send again" })).toHaveCount(0);
  await expect(why).toHaveValue("The figures are");
  await expect(why).toBeFocused();
});

test("the seconds that a stopping job is waited for are counted", async ({ page, mail }) => {
  const reply = mail.hold("reply");
  await signIn(page, ada);
  const listening = page.waitForResponse("**/events");
  await generate(page);
  await reply.reached;
  await listening;
  await page.locator("form.cancel button").click();
  await expect(headline(page)).toHaveText("Stopping…");
  await expect(page.getByText(/, for [3-9] s\.$/)).toBeVisible();
  reply.open();
  await expect(headline(page)).toHaveText(/^The cancel came too late/);
  await expect(page.getByText(/^Waiting since/)).toHaveCount(0);
});
