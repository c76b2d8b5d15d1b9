// Files from the person's own device.
import { ada, expect, headline, signIn, test } from "../fixtures.ts";
import type { Page } from "@playwright/test";

const file = (name: string, text: string) => ({ name, mimeType: "text/plain", buffer: Buffer.from(text) });

/** Chooses files; with a script they are sent at once, without one by "Check". */
async function upload(page: Page, scripted: boolean, files: ReturnType<typeof file>[]): Promise<void> {
  const before = page.url();
  await page.getByLabel("Your own files").setInputFiles(files);
  if (!scripted) await page.getByRole("button", { name: "Check" }).click();
  // The form keeps its address once it has one; what has changed then is its content.
  if (!before.includes("draft=")) await page.waitForURL(/\?draft=/);
}

const uploads = (page: Page) => page.getByRole("list", { name: "Uploaded files" }).getByRole("listitem");

test("several files are uploaded, dated by hand, removed and used", async ({ page, scripted }) => {
  await signIn(page, ada);
  await page.goto("/");
  await page.getByLabel("Title").fill("From my desk");
  for (const box of await page.getByRole("checkbox").all()) await box.uncheck();
  await page.getByLabel("Month", { exact: true }).fill("2026-05");
  await upload(page, scripted, [
    file("2026-05-12-visit.txt", "The auditors visited the workshop. They found nothing to object to and will come back in a year."),
    file("notes.txt", "The neighbours complained about the noise of the planer. A new planer costs 7,900 euros."),
    file("wrong.txt", "This file was chosen by mistake and says nothing about the month."),
  ]);
  await expect(uploads(page)).toHaveCount(3);
  await expect(page.getByLabel("Title")).toHaveValue("From my desk");
  await expect(uploads(page).filter({ hasText: "visit" })).toContainText("2026-05-12, by its file name");
  await expect(uploads(page).filter({ hasText: "notes" })).toContainText("Nothing dates it; not counted to this month");
  await expect(page.locator("#counts")).toContainText("1 document found.");

  await page.getByRole("button", { name: "Remove wrong.txt" }).click();
  await expect(uploads(page)).toHaveCount(2);
  await uploads(page).filter({ hasText: "notes" }).getByLabel("Count it to another month").fill("2026-05");
  await page.getByRole("button", { name: "Check" }).click();
  await expect(page.locator("#counts")).toContainText("2 documents found.");
  await page.getByRole("button", { name: /^Generate/ }).click();

  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  const notes = page.getByRole("row", { name: "notes.txt" });
  await expect(notes).toContainText("read");
  await expect(notes).toContainText("by hand");
  await page.getByRole("link", { name: "Read the report" }).click();
  await expect(page.locator("article")).toContainText("2026-05-12-visit.txt");
  await expect(page.locator("article")).not.toContainText("wrong.txt");
});

test("a file that is too large is named, and the form keeps the rest", async ({ page, scripted }) => {
  await signIn(page, ada);
  await page.goto("/");
  await page.getByLabel("Title").fill("Too much");
  await upload(page, scripted, [
    file("2026-05-small.txt", "A small file that is taken all the same."),
    file("large.txt", "x".repeat(2_100_000)),
    file("empty.txt", ""),
  ]);
  await expect(page.locator("#files-error")).toContainText(
    '"large.txt" has 3 MB; a file may have at most 1 MB. It was not added.',
  );
  await expect(page.locator("#files-error")).toContainText('"empty.txt" is empty. It was not added.');
  await expect(uploads(page)).toHaveCount(1);
  await expect(page.getByLabel("Title")).toHaveValue("Too much");
});

test("uploaded files stay with the job when it is started again", async ({ page, scripted }) => {
  await signIn(page, ada);
  await page.goto("/");
  await page.getByLabel("Month", { exact: true }).fill("2026-05");
  await upload(page, scripted, [file("2026-05-12-visit.txt", "The auditors visited the workshop and found nothing.")]);
  await expect(uploads(page)).toHaveCount(1);
  await page.getByRole("button", { name: /^Generate/ }).click();
  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  await page.getByRole("link", { name: "Start again with another month" }).click();
  await expect(uploads(page)).toHaveCount(1);
});

test("a file without an ending and one of no known kind get their line", async ({ page, scripted }) => {
  await signIn(page, ada);
  await page.goto("/");
  await page.getByLabel("Month", { exact: true }).fill("2026-05");
  await upload(page, scripted, [
    file("2026-05-protocol", "The board met and decided to paint the workshop green."),
    { name: "2026-05-picture.png", mimeType: "image/png", buffer: Buffer.from("89504e470d0a1a0a0000000d49484452", "hex") },
  ]);
  await expect(uploads(page)).toHaveCount(2);
  await page.getByRole("button", { name: /^Generate/ }).click();
  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  await expect(page.getByRole("row", { name: "2026-05-protocol" })).toContainText("read");
  await expect(page.getByRole("row", { name: "2026-05-picture.png" })).toContainText("a picture");
});
