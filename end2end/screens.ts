// Takes pictures of all pages and states, wide and narrow, light and dark. Not a test: it is for looking.
import type { Page } from "@playwright/test";
import { fileURLToPath } from "node:url";
import { ada, admin, cancelButton, expect, fillIn, generate, headline, signIn, test } from "./fixtures.ts";

const FOLDER = fileURLToPath(new URL("../target/screens/", import.meta.url));
const THREE = ["ada@example.org", "bea@example.org", "cem@example.org"];

async function take(page: Page, name: string): Promise<void> {
  for (const [size, width, height] of [
    ["wide", 1280, 900],
    ["narrow", 375, 800],
  ] as const) {
    for (const colorScheme of ["light", "dark"] as const) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.screenshot({ path: `${FOLDER}${name}-${size}-${colorScheme}.png`, fullPage: true });
    }
  }
}

test.describe("without people", () => {
  test.use({ setup: { people: false } });
  test("set-up", async ({ page }) => {
    await page.goto("/");
    await take(page, "set-up");
  });
});

test.describe("collecting", () => {
  test.use({ setup: { archive: true } });
  test("job, collecting and cancelled", async ({ page }) => {
    await signIn(page, ada);
    await generate(page, { sources: ["Archive"] });
    await expect(page.getByRole("progressbar")).toBeVisible();
    await take(page, "job-collecting");
    await cancelButton(page).click();
    await expect(headline(page)).toHaveText(/^Cancelled/);
    await take(page, "job-cancelled-nothing");
  });
});

test.describe("with peers", () => {
  test.use({ setup: { summarizer: "model", mail: "smtp", lease: 3 } });
  test("everything else", async ({ page, server, model, mail, otherDevice }) => {
    await page.goto("/sign-in");
    await take(page, "sign-in");
    await page.goto("/sign-in?problem=credentials&email=ada%40example.org");
    await take(page, "sign-in-refused");
    await signIn(page, ada);
    await fillIn(page);
    await expect(page.locator("#counts")).toContainText("3 documents");
    await take(page, "form");
    await fillIn(page, { month: "2025-09", recipients: ["bert", "Bea <bea@example.org>"] });
    await page.getByLabel("Time zone").fill("Mars/Olympus");
    await page.getByRole("button", { name: /^Generate/ }).click();
    await page.waitForURL(/draft=/);
    await take(page, "form-refused");
    await page.goto("/");
    await page.getByLabel("Month", { exact: true }).fill("2026-05");
    await page.getByLabel("Your own files").setInputFiles([
      { name: "2026-05-12-visit.txt", mimeType: "text/plain", buffer: Buffer.from("The auditors visited the workshop.") },
      { name: "notes-of-a-long-conversation-with-the-neighbours-about-noise.txt", mimeType: "text/plain", buffer: Buffer.from("x") },
      { name: "large.txt", mimeType: "text/plain", buffer: Buffer.from("x".repeat(2_000_000)) },
    ]);
    await page.waitForURL(/draft=/);
    await expect(page.getByRole("list", { name: "Uploaded files" })).toBeVisible();
    await take(page, "form-uploads");

    const answer = model.hold();
    let reply = mail.hold("reply");
    const first = await generate(page, { title: "Workshop", recipients: THREE });
    await answer.reached;
    await expect(headline(page)).toHaveText("Summarizing");
    await take(page, "job-summarizing");
    answer.open();
    await reply.reached;
    await expect(headline(page)).toHaveText(/^E-mailing/);
    await take(page, "job-e-mailing");
    await cancelButton(page).click();
    await expect(headline(page)).toHaveText("Stopping…");
    await take(page, "job-stopping");
    reply.open();
    await expect(headline(page)).toHaveText(/^Cancelled/);
    await take(page, "job-cancelled-one-of-three");

    await generate(page);
    await expect(headline(page)).toHaveText(/^Report saved/);
    await page.getByText("History").click();
    await take(page, "job-finished");
    await page.getByRole("link", { name: "Read the report" }).click();
    await expect(page.locator("article")).toBeVisible();
    await take(page, "report");
    await page.locator("article .statements a").first().click();
    await expect(page.locator("#passage")).toBeVisible();
    await take(page, "document");

    await generate(page, { month: "2025-09" });
    await expect(headline(page)).toHaveText(/^Failed/);
    await take(page, "job-failed");

    reply = mail.hold("reply", 3);
    const doubtful = await generate(page, { title: "Accounts" });
    await reply.reached;
    await expect(headline(page)).toHaveText(/^E-mailing/);
    await server.kill("SIGKILL");
    await expect(page.getByText(/^Connection lost/)).toBeVisible();
    await take(page, "job-connection-lost");
    const failed = page.waitForEvent("requestfailed");
    await page.getByRole("button", { name: "Cancel" }).click();
    await failed;
    await expect(page.getByText("Cancel not confirmed, checking…")).toBeVisible();
    await take(page, "job-cancel-not-confirmed");
    await server.start();
    await page.goto(doubtful);
    await expect(headline(page)).toHaveText(/unconfirmed$/);
    await take(page, "job-unconfirmed");

    await page.goto("/jobs");
    await take(page, "jobs");
    await page.goto("/jobs?state=queued");
    await take(page, "jobs-none");
    await page.goto("/account");
    await page.getByLabel("Name of a new token").fill("laptop");
    await page.getByRole("button", { name: "Make a token" }).click();
    await expect(page.getByLabel("New token", { exact: true })).toBeVisible();
    await take(page, "account");
    await page.goto("/nowhere");
    await take(page, "nothing-here");
    const office = await otherDevice(admin);
    await office.goto("/admin/effects");
    await take(office, "effects");
    await office.goto("/jobs");
    await take(office, "jobs-of-everyone");
    await office.goto(first);
    await take(office, "job-of-somebody-else");
  });
});
