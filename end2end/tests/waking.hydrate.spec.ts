// What is typed while the WebAssembly is on its way is what counts, and what the page says is about that.
import type { Page } from "@playwright/test";
import { ada, admin, expect, generate, headline, outbox, signIn, test } from "../fixtures.ts";
import { Gate } from "../support/gate.ts";

/** Holds the WebAssembly of the pages that are opened from now on. */
async function asleep(page: Page): Promise<Gate> {
  const gate = new Gate();
  await page.route("**/pkg/*.wasm", async (route) => {
    await gate.pass();
    await route.continue();
  });
  return gate;
}

const recipients = (page: Page) => page.getByLabel("Send the link to");
const people = (page: Page) => page.locator("#people");

test("a new report is ordered as it stands, whenever it was typed", async ({ page, server }) => {
  await signIn(page, ada);
  const wasm = await asleep(page);
  await page.goto("/");
  await wasm.reached;
  await page.getByLabel("Title").fill("Before");
  await page.getByLabel("Month", { exact: true }).fill("2026-05");
  await page.getByRole("checkbox", { name: "Letters" }).uncheck();
  await page.getByLabel("What to look for").fill("prices");
  await recipients(page).fill("bea@example.org, ");
  // While it wakes.
  await recipients(page).press("End");
  const typing = recipients(page).pressSequentially("cem@example.org, ", { delay: 15 });
  wasm.open();
  await typing;
  await expect(page.getByRole("button", { name: "Generate May 2026 report" })).toBeVisible();
  await expect(page.locator("#counts")).toHaveText("1 to 31 May 2026, UTC. 2 documents found.");
  await expect(people(page)).toHaveText(/2 people, one message each:\s+bea@example.org, cem@example.org/);
  // And after.
  await recipients(page).pressSequentially("dan@example.org");
  await expect(people(page)).toHaveText(/3 people, one message each:\s+bea@example.org, cem@example.org, dan@example.org/);
  await expect(page.getByLabel("Title")).toHaveValue("Before");
  await expect(page.getByLabel("What to look for")).toHaveValue("prices");
  await page.getByRole("button", { name: "Generate May 2026 report" }).click();
  await page.waitForURL(/\/jobs\//);
  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Before, May 2026");
  expect(outbox(server)).toHaveLength(3);
});

test("the page never names others than those who are typed", async ({ page }) => {
  await signIn(page, ada);
  await page.goto("/");
  await expect(people(page)).toHaveText(/1 person, one message:\s+ada@example.org/);
  await page.route("**/api/new-report/recipients", (route) => route.abort());
  await recipients(page).fill("bea@example.org");
  await expect(people(page)).not.toContainText("ada@example.org");
  await expect(people(page)).toContainText("could not be looked up");
});

test("the other forms keep what was typed before the page woke", async ({ page, mail }) => {
  const wasm = await asleep(page);
  await page.goto("/sign-in");
  await wasm.reached;
  await page.getByLabel("E-mail address").fill(ada.email);
  await page.getByLabel("Password").fill(ada.password);
  wasm.open();
  // The pages are awake when they follow the news.
  await page.waitForLoadState("networkidle");
  await expect(page.getByLabel("E-mail address")).toHaveValue(ada.email);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("heading", { name: "New report" })).toBeVisible();
  expect(mail.taken).toEqual([]);

  const job = await generate(page);
  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  await page.unrouteAll({ behavior: "wait" });
  const later = await asleep(page);
  const open = async (path: string) => {
    await page.goto(path);
    await later.reached;
    await page.locator("details.fold").evaluateAll((all) => all.forEach((one) => one.setAttribute("open", "")));
  };
  await open(job);
  await page.getByLabel("What is wrong, and what is right?").fill("It was the 12th.");
  await page.getByLabel("Why is it withdrawn?").fill("Another month.");
  later.open();
  // A page that is awake reads the record of a job that has ended when the person comes back to it.
  await expect(async () => {
    const read = page.waitForResponse("**/api/jobs/read", { timeout: 1_000 });
    await Promise.all([read, page.evaluate(() => window.dispatchEvent(new Event("focus")))]);
  }).toPass();
  await expect(page.getByLabel("What is wrong, and what is right?")).toHaveValue("It was the 12th.");
  await expect(page.getByLabel("Why is it withdrawn?")).toHaveValue("Another month.");
  await page.getByRole("button", { name: "Send correction" }).click();
  await expect(headline(page)).toHaveText("Correction written to the outbox folder, no e-mail was sent");
});

test.describe("a decision", () => {
  test.use({ setup: { mail: "smtp" } });

  test("is kept while the page wakes and while others change the record", async ({ page, mail }) => {
    mail.loseReply();
    await signIn(page, admin);
    const job = await generate(page);
    await expect(headline(page)).toHaveText(/unconfirmed/);
    const wasm = await asleep(page);
    await page.goto(`/admin/effects/${job.split("/").pop()}/2`);
    await wasm.reached;
    await page.getByLabel("What did you see?").fill("Line 7 of the log.");
    const counted = page.waitForResponse("**/api/effects/unconfirmed");
    wasm.open();
    await counted;
    await expect(page.getByLabel("What did you see?")).toHaveValue("Line 7 of the log.");
    await page.getByRole("button", { name: "It was accepted" }).click();
    await expect(page.locator("#outcome")).toHaveText(/^accepted/);
  });
});
