// The same job on several screens, and screens that are out of date.
import type { BrowserContext, Page } from "@playwright/test";
import { ada, bob, cancelButton, consequence, expect, generate, headline, pressCancel, signIn, step, test } from "../fixtures.ts";

test.use({ setup: { summarizer: "model" } });

/** A page that stands still: it hears nothing from the stream, and its own reloading brings back the copy that it began with. */
async function openStale(context: BrowserContext, job: string): Promise<Page> {
  const stale = await context.newPage();
  let copy: Buffer | null = null;
  let pressed = false;
  await stale.route("**/events", (route) => route.abort());
  for (const cancellation of [`**${job}/cancellation`, "**/api/jobs/cancel"]) {
    await stale.route(cancellation, (route) => {
      pressed = true;
      return route.continue();
    });
  }
  await stale.route(`**${job}`, async (route) => {
    if (pressed) return route.continue();
    const response = await route.fetch();
    copy ??= await response.body();
    return route.fulfill({ response, body: copy });
  });
  await stale.goto(job);
  await expect(cancelButton(stale)).toBeVisible();
  return stale;
}

test("a second cancel from a page that is out of date meets the first", async ({ page, model, context }) => {
  const answer = model.hold();
  await signIn(page, ada);
  const job = await generate(page);
  await answer.reached;
  const stale = await openStale(context, job);
  await pressCancel(page);
  await expect(headline(page)).toHaveText("Cancelled. Nothing was saved or sent");

  await pressCancel(stale);
  await expect(headline(stale)).toHaveText("Cancelled. Nothing was saved or sent");
  await stale.goto(job);
  await stale.locator("summary", { hasText: "History" }).click();
  await expect(stale.getByText("Cancel accepted, asked for by ada@example.org")).toHaveCount(1);
  await expect(stale.getByText("Cancel pressed again by ada@example.org")).toHaveCount(1);
  expect(model.prompts).toHaveLength(1);
});

test("a cancel from a page that is out of date is told that it came too late", async ({ page, model, context, scripted }) => {
  const answer = model.hold();
  await signIn(page, ada);
  const job = await generate(page);
  await answer.reached;
  const stale = await openStale(context, job);
  answer.open();
  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");

  await pressCancel(stale);
  await expect(headline(stale)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  if (scripted) await expect(stale.getByText("The cancel came too late: the job had already finished.")).toBeVisible();
  await stale.goto(job);
  await stale.locator("summary", { hasText: "History" }).click();
  await expect(stale.getByText("Cancel by ada@example.org arrived late; the job had already ended")).toBeVisible();
});

test("a page that was closed shows the same on another device", async ({ page, model, otherDevice }) => {
  const answer = model.hold();
  await signIn(page, ada);
  const job = await generate(page);
  await answer.reached;
  await expect(headline(page)).toHaveText("Summarizing");
  await page.close();

  const phone = await otherDevice(ada);
  await phone.goto("/jobs");
  await expect(phone.getByRole("row", { name: "May 2026" })).toContainText("Summarizing");
  await phone.goto(job);
  await expect(headline(phone)).toHaveText("Summarizing");
  await expect(step(phone, "Collect")).toHaveClass("done");
  await expect(consequence(phone)).toHaveText("If you cancel now, nothing will be saved or sent.");
  await pressCancel(phone);
  await expect(headline(phone)).toHaveText("Cancelled. Nothing was saved or sent");

  const tablet = await otherDevice(ada);
  await tablet.goto(job);
  await expect(headline(tablet)).toHaveText("Cancelled. Nothing was saved or sent");
  await expect(tablet.getByText(/^Cancel was pressed at .* by you\.$/)).toBeVisible();
});

test("a cancel on one device shows on the other", async ({ page, model, otherDevice }) => {
  const answer = model.hold();
  await signIn(page, ada);
  const job = await generate(page);
  await answer.reached;
  const phone = await otherDevice(ada);
  await phone.goto(job);
  await expect(cancelButton(phone)).toBeVisible();
  await pressCancel(phone);
  await expect(headline(page)).toHaveText("Cancelled. Nothing was saved or sent");
  await expect(cancelButton(page)).toHaveCount(0);
});

test("many screens that ask at the same moment all get the page", async ({ page, model }) => {
  const answer = model.hold();
  await signIn(page, ada);
  const job = await generate(page);
  await answer.reached;
  const ask = async () => {
    const seen: number[] = [];
    for (let count = 0; count < 12; count += 1) seen.push((await page.request.get(job)).status());
    return seen;
  };
  const statuses = (await Promise.all(Array.from({ length: 20 }, ask))).flat();
  expect(statuses.filter((status) => status !== 200)).toEqual([]);
});

test("who was sent the link may read the report, and only that", async ({ page, otherDevice }) => {
  await signIn(page, ada);
  const job = await generate(page, { recipients: ["bob@example.org"] });
  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  const report = (await page.getByRole("link", { name: "Read the report" }).getAttribute("href")) ?? "";

  const other = await otherDevice(bob);
  await other.goto(report);
  await expect(other.getByRole("heading", { level: 1 })).toHaveText("May 2026");
  await expect(other.getByRole("link", { name: "This job" })).toHaveCount(0);
  await expect(other.getByRole("link", { name: "How it was made" })).toHaveCount(0);
  await other.locator("article .statements a").first().click();
  await expect(other.locator("#passage")).toBeVisible();
  expect((await other.goto(job))?.status()).toBe(404);
});

test("jobs, reports and documents of others are not there", async ({ page, model, otherDevice }) => {
  await signIn(page, ada);
  const job = await generate(page);
  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  const report = await page.getByRole("link", { name: "Read the report" }).getAttribute("href");
  expect(model.prompts).toHaveLength(1);

  const other = await otherDevice(bob);
  for (const path of [job, report ?? "", `${report}/documents/1`, "/jobs/0192f3c4-7d1e-7a55-8000-000000000000", "/nowhere"]) {
    const answered = await other.goto(path);
    expect(answered?.status(), path).toBe(404);
    await expect(other.getByRole("heading", { name: "Nothing here" })).toBeVisible();
  }
  await other.goto("/jobs");
  await expect(other.getByText("There are no jobs.")).toBeVisible();
});
