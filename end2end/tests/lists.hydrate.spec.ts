// The lists follow the record: what they say and what the record says, at the same moment.
import type { Page } from "@playwright/test";
import { ada, admin, bob, expect, generate, headline, signIn, test } from "../fixtures.ts";

const WRITTEN = "Report saved; written to the outbox folder, no e-mail was sent";

/** What the record says, asked at this moment. */
async function recorded(page: Page, job: string): Promise<string> {
  const answer = await page.request.get(`/api/v1${job}`);
  return ((await answer.json()) as { headline: string }).headline;
}

/** Opens a page that follows the record, and waits until it does. */
async function follow(page: Page, path: string): Promise<void> {
  const listening = page.waitForResponse("**/jobs/news");
  await page.goto(path);
  await listening;
}

test.describe("the jobs", () => {
  test.use({ setup: { summarizer: "model" } });

  test("are listed as they are: a new one, its steps, its end, without a Cancel that can do nothing", async ({
    page,
    model,
    otherDevice,
  }) => {
    const answer = model.hold();
    await signIn(page, ada);
    const phone = await otherDevice(ada);
    await follow(phone, "/jobs");
    const desk = await otherDevice(ada);
    await follow(desk, "/");
    await desk.getByLabel("Title").fill("Not to be lost");
    const job = await generate(page, { title: "Workshop" });
    await answer.reached;
    const row = phone.getByRole("row").filter({ hasText: "Workshop" });
    const recent = desk.locator("ul.recent li").filter({ hasText: "Workshop" });
    await expect(row).toContainText("Summarizing");
    await expect(recent).toContainText("Summarizing");
    await expect(row.getByRole("button", { name: /^Cancel/ })).toBeVisible();
    answer.open();
    await expect(row).toContainText(WRITTEN);
    await expect(recent).toContainText(WRITTEN);
    expect(await recorded(page, job)).toBe(WRITTEN);
    await expect(row.getByRole("button", { name: /^Cancel/ })).toHaveCount(0);
    await expect(row.getByRole("link", { name: "Read" })).toBeVisible();
    // A form beside a list that is read again stays as it is.
    await expect(desk.getByLabel("Title")).toHaveValue("Not to be lost");
  });

  test("in a state come and go with it", async ({ page, model, otherDevice }) => {
    const answer = model.hold();
    await signIn(page, ada);
    const phone = await otherDevice(ada);
    await follow(phone, "/jobs?state=finished");
    await generate(page, { title: "Workshop" });
    await answer.reached;
    await expect(phone.getByText("No job is in this state.")).toBeVisible();
    answer.open();
    await expect(phone.getByRole("row").filter({ hasText: "Workshop" })).toContainText(WRITTEN);
  });

  test("of others tell nothing", async ({ page, otherDevice }) => {
    await signIn(page, ada);
    const other = await otherDevice(bob);
    await follow(other, "/jobs");
    let reads = 0;
    other.on("request", (request) => {
      if (request.url().endsWith("/api/pages/jobs")) reads += 1;
    });
    await generate(page);
    await expect(headline(page)).toHaveText(WRITTEN);
    await expect(other.getByText("There are no jobs.")).toBeVisible();
    // At most the one that every page makes when its connection stands.
    expect(reads).toBeLessThanOrEqual(1);
  });

  test("of a lost connection are said to be old, and are read again", async ({ page, server, model, otherDevice }) => {
    const answer = model.hold();
    await signIn(page, ada);
    const phone = await otherDevice(ada);
    await follow(phone, "/jobs");
    const job = await generate(page, { title: "Workshop" });
    await answer.reached;
    const row = phone.getByRole("row").filter({ hasText: "Workshop" });
    await expect(row).toContainText("Summarizing");
    await server.kill("SIGTERM");
    await expect(phone.getByText(/^Connection lost, last known state at /)).toBeVisible();
    answer.open();
    await server.start();
    await expect(row).toContainText(WRITTEN);
    await expect(phone.getByText(/^Connection lost/)).toHaveCount(0);
    expect(await recorded(page, job)).toBe(WRITTEN);
  });
});

test.describe("the effects", () => {
  test.use({ setup: { mail: "smtp" } });

  test("and their count follow the record: in flight is no call for a person, unconfirmed is one", async ({
    page,
    mail,
    otherDevice,
  }) => {
    const reply = mail.hold("reply", 2);
    mail.loseReply(3);
    await signIn(page, ada);
    const office = await otherDevice(admin);
    await follow(office, "/admin/effects");
    const second = await otherDevice(admin);
    await follow(second, "/account");
    await generate(page, { title: "First" });
    await expect(office.getByRole("row").filter({ hasText: "First" }).filter({ hasText: "E-mail to" })).toContainText("accepted");
    await generate(page, { title: "Second" });
    await reply.reached;
    await expect(office.getByRole("row").filter({ hasText: "Second" }).filter({ hasText: "E-mail to" })).toContainText(
      "handed over, no answer yet",
    );
    await expect(office.locator(".masthead .count")).toHaveCount(0);
    reply.open();
    await expect(office.getByRole("heading", { name: /^Open/ })).toHaveCount(0);
    await generate(page, { title: "Third" });
    await expect(headline(page)).toHaveText(/unconfirmed/);
    for (const screen of [office, second]) {
      await expect(screen.getByRole("link", { name: "Effects 1 unconfirmed" })).toBeVisible();
    }
    await expect(office.getByRole("heading", { name: "Open (1)" })).toBeVisible();
  });
});
