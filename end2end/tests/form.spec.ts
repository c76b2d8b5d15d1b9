// The form for a new report: what it says before anything starts, and what it does not take.
import { ada, expect, fillIn, generate, headline, outbox, signIn, test } from "../fixtures.ts";

test.beforeEach(async ({ page }) => signIn(page, ada));

/** Sends the form as it stands and waits for what the server has to say. */
async function send(page: Parameters<typeof fillIn>[0], name: string | RegExp = /^Generate/): Promise<void> {
  await page.getByRole("button", { name }).click();
  await page.waitForURL(/\?draft=/);
}

test("the documents of the month are counted for each folder before anything starts", async ({ page, scripted }) => {
  await fillIn(page);
  if (!scripted) await page.getByRole("button", { name: "Check" }).click();
  await expect(page.locator("#counts")).toHaveText("1 to 31 May 2026, UTC. 3 documents found.");
  const folders = page.getByRole("group", { name: "Documents" });
  await expect(folders).toContainText("2 in May");
  await expect(folders).toContainText("1 in May");
  await expect(page.getByRole("button", { name: "Generate May 2026 report" })).toBeVisible();
  await expect(page.locator("#people")).toHaveText(/1 person, one message:\s+ada@example.org/);
  await expect(page.getByText("Nobody yet")).toHaveCount(0);

  await page.getByRole("checkbox", { name: "Letters" }).uncheck();
  if (!scripted) await page.getByRole("button", { name: "Check" }).click();
  await expect(page.locator("#counts")).toHaveText("1 to 31 May 2026, UTC. 2 documents found.");
  await expect(page.getByRole("alert")).toHaveCount(0);
});

test("a month without documents is warned of, and its job fails before anything is asked", async ({ page, server }) => {
  await generate(page, { month: "2025-09", sources: ["Minutes"] });
  await expect(headline(page)).toHaveText("Failed while collecting documents. Nothing was saved or sent");
  await expect(page.getByText("No documents for September 2025 in Minutes.", { exact: true }).first()).toBeVisible();
  expect(outbox(server)).toEqual([]);

  await fillIn(page, { month: "2025-09" });
  await page.getByRole("button", { name: "Check" }).click();
  await expect(
    page.getByText("No documents for September 2025 in the chosen folders and files. The job would fail."),
  ).toBeVisible();
});

test("a month that does not exist is named", async ({ page }) => {
  for (const [month, sentence] of [
    ["2026-13", "months go from 01 to 12"],
    ["2026-2", "Write the month as YYYY-MM"],
    ["", "Write the month as YYYY-MM"],
  ] as const) {
    await page.goto("/");
    // As in a browser that has no control for months.
    await page.getByLabel("Month", { exact: true }).evaluate((input: HTMLInputElement) => (input.type = "text"));
    await page.getByLabel("Month", { exact: true }).fill(month);
    await send(page);
    await expect(page.getByRole("alert")).toContainText("Nothing has been started.");
    await expect(page.locator("#month-error")).toContainText(sentence);
    await expect(page.getByLabel("Month", { exact: true })).toHaveAttribute("aria-invalid", "true");
  }
  await page.goto("/jobs");
  await expect(page.getByText("There are no jobs.")).toBeVisible();
});

test("a month that is still to come is warned of and taken", async ({ page }) => {
  await fillIn(page, { month: "2126-01", sources: ["Minutes"] });
  await send(page, "Check");
  await expect(page.getByText("January 2126 has not begun yet.", { exact: false })).toBeVisible();
  await page.getByRole("button", { name: "Generate January 2126 report" }).click();
  await expect(headline(page)).toHaveText("Failed while collecting documents. Nothing was saved or sent");
});

test("an unknown time zone is named", async ({ page }) => {
  await fillIn(page);
  await page.getByLabel("Time zone").fill("Mars/Olympus");
  await send(page);
  await expect(page.locator("#zone-error")).toHaveText(
    '"Mars/Olympus" is not a time zone that Recount knows. Use an IANA name, for example Europe/Berlin.',
  );
  await expect(page.getByLabel("Time zone")).toHaveValue("Mars/Olympus");
});

test("an address that is none is named, and the form keeps what was typed", async ({ page }) => {
  await fillIn(page, { title: "Workshop", sources: ["Letters"], recipients: ["ada@example.org", "bert"] });
  await page.getByLabel("What to look for").fill("prices");
  await send(page);
  await expect(page.locator("#recipients-error")).toHaveText('"bert" is not an e-mail address.');
  await expect(page.getByLabel("Title")).toHaveValue("Workshop");
  await expect(page.getByLabel("Month", { exact: true })).toHaveValue("2026-05");
  await expect(page.getByLabel("What to look for")).toHaveValue("prices");
  await expect(page.getByRole("checkbox", { name: "Letters" })).toBeChecked();
  await expect(page.getByRole("checkbox", { name: "Minutes" })).not.toBeChecked();
  await page.getByRole("alert").getByRole("link").click();
  await expect(page.getByLabel("Send the link to")).toBeInViewport();
});

test("a header cannot be smuggled in by an address or a title", async ({ page, server }) => {
  await fillIn(page, { recipients: ["ada@example.org\r\nBcc: everybody@example.org"] });
  await send(page);
  await expect(page.locator("#recipients-error")).toHaveText(
    '"Bcc: everybody@example.org" contains a space. Separate addresses with a comma.',
  );
  // A text field drops line breaks, so this is sent as a program would.
  const key = await page.locator("input[name=request_key]").inputValue();
  const answer = await page.request.post("/jobs", {
    multipart: {
      request_key: key,
      title: "Minutes\r\nBcc: everybody@example.org",
      month: "2026-05",
      zone: "UTC",
      source: "minutes",
      recipients: "ada@example.org",
      shown_recipients: "ada@example.org",
      action: "generate",
    },
  });
  expect(await answer.text()).toContain("The title contains a line break or another control character.");
  expect(outbox(server)).toEqual([]);
});

test("a thousand recipients are too many", async ({ page }) => {
  await fillIn(page, { recipients: Array.from({ length: 1000 }, (_, n) => `p${n}@example.org`) });
  await send(page);
  await expect(page.locator("#recipients-error")).toHaveText("1,000 recipients are more than Recount sends to: at most 100.");
});

test("recipients that were not shown yet are shown before anything is sent", async ({ page, server }) => {
  await fillIn(page);
  // Typed and sent faster than the page could ask who that is.
  await page.getByLabel("Send the link to").fill("bea@example.org, cem@example.org");
  await page.getByRole("button", { name: /^Generate/ }).click();
  await page.waitForURL(/\?draft=/);
  await expect(page.locator("#people")).toHaveText(/2 people, one message each:\s+bea@example.org, cem@example.org/);
  expect(outbox(server)).toEqual([]);
  await page.getByRole("button", { name: "Generate May 2026 report" }).click();
  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  expect(outbox(server)).toHaveLength(2);
});

test("a form that is sent twice makes one job", async ({ page, server }) => {
  await fillIn(page);
  const form = {
    request_key: await page.locator("input[name=request_key]").inputValue(),
    month: "2026-05",
    zone: "UTC",
    source: "minutes",
    recipients: "ada@example.org",
    shown_recipients: "ada@example.org",
    action: "generate",
  };
  const answers = await Promise.all([1, 2, 3].map(() => page.request.post("/jobs", { multipart: form })));
  expect(new Set(answers.map((answer) => answer.url())).size).toBe(1);
  await page.goto(answers[0]?.url() ?? "");
  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  expect(outbox(server)).toHaveLength(1);
});

test("starting again with another month opens the form filled in", async ({ page }) => {
  await generate(page, { title: "Workshop", sources: ["Minutes"], recipients: ["ada@example.org", "bea@example.org"] });
  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  await page.getByRole("link", { name: "Start again with another month" }).click();
  await expect(page.getByLabel("Title")).toHaveValue("Workshop");
  await expect(page.getByLabel("Month", { exact: true })).toHaveValue("2026-05");
  await expect(page.getByLabel("Send the link to")).toHaveValue("ada@example.org, bea@example.org");
  await expect(page.getByRole("checkbox", { name: "Minutes" })).toBeChecked();
  await expect(page.getByRole("checkbox", { name: "Letters" })).not.toBeChecked();
  await page.getByLabel("Month", { exact: true }).fill("2026-04");
  await page.getByRole("button", { name: /^Generate/ }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Workshop, April 2026");
  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
});
