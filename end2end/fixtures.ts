// What every test gets: a server of its own with people, documents, a mail server and a model server, and browsers that
// report every error of a page.
import { test as base, expect, type BrowserContext, type Locator, type Page } from "@playwright/test";
import { cpSync, linkSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Database } from "./support/database.ts";
import { SAMPLES, type Documents } from "./support/documents.ts";
import { MailServer } from "./support/mail-server.ts";
import { ModelServer } from "./support/model-server.ts";
import { addUser, Recount, type Person } from "./support/recount.ts";

export { expect };

const PASSWORD = "a horse in the workshop";
export const ada: Person = { email: "ada@example.org", role: "user", password: PASSWORD };
export const bob: Person = { email: "bob@example.org", role: "user", password: PASSWORD };
export const admin: Person = { email: "admin@example.org", role: "admin", password: PASSWORD };

/** What a test may choose about its server. */
export interface Setup {
  /** Whether there are people yet. */
  people: boolean;
  documents: Documents;
  summarizer: "built-in" | "model";
  mail: "outbox" | "smtp";
  /** Seconds until a dead worker's jobs are taken over. */
  lease: number;
  /** The largest upload, in MB. */
  maxFile: number;
  /** Adds a folder "Archive" with so many documents that reading them takes longer than any test. */
  archive: boolean;
}

export const DEFAULTS: Setup = {
  people: true,
  documents: SAMPLES,
  summarizer: "built-in",
  mail: "outbox",
  lease: 15,
  maxFile: 1,
  archive: false,
};

interface TestFixtures {
  setup: Partial<Setup>;
  mail: MailServer;
  model: ModelServer;
  server: Recount;
  /** Whether pages may run scripts. */
  scripted: boolean;
  /** A further browser with nothing in common with the first one but the server. */
  otherDevice: (person?: Person) => Promise<Page>;
  /** Errors of pages that a test expects; others fail it. */
  tolerated: RegExp | null;
  watched: (context: BrowserContext) => void;
}

interface WorkerFixtures {
  /** A data folder with people, to copy: making passwords costs time. */
  seed: { data: string; database: Database | null };
}

export const test = base.extend<TestFixtures, WorkerFixtures>({
  seed: [
    async ({}, use) => {
      const data = mkdtempSync(join(tmpdir(), "recount-seed-"));
      const database = Database.copyOf(null);
      if (database) writeFileSync(join(data, "recount.toml"), database.setting);
      for (const person of [ada, bob, admin]) addUser(data, person);
      await use({ data, database });
      database?.drop();
      rmSync(data, { recursive: true });
    },
    { scope: "worker" },
  ],

  setup: [{}, { option: true }],
  scripted: async ({ javaScriptEnabled }, use) => use(javaScriptEnabled !== false),

  mail: async ({}, use) => {
    const mail = await MailServer.start();
    await use(mail);
    await mail.close();
  },

  model: async ({}, use) => {
    const model = await ModelServer.start();
    await use(model);
    await model.close();
  },

  server: async ({ seed, setup, mail, model }, use, testInfo) => {
    const chosen = { ...DEFAULTS, ...setup };
    const home = mkdtempSync(join(tmpdir(), "recount-"));
    const data = join(home, "data");
    const database = Database.copyOf(chosen.people ? seed.database : null);
    if (chosen.people) cpSync(seed.data, data, { recursive: true });
    else mkdirSync(data);
    writeFileSync(join(data, "recount.toml"), `${database?.setting ?? ""}\n${settings(home, chosen, mail, model)}`);
    const server = new Recount(data);
    await server.start();
    await use(server);
    await server.kill("SIGKILL");
    if (testInfo.status !== testInfo.expectedStatus) await testInfo.attach("server.log", { body: server.output });
    database?.drop();
    rmSync(home, { recursive: true });
    expect(server.output).not.toContain("panicked");
  },

  baseURL: async ({ server }, use) => use(server.url),

  tolerated: [null, { option: true }],

  watched: async ({ tolerated }, use) => {
    const errors: string[] = [];
    await use((context) => {
      context.on("console", (message) => {
        // The browser's own note about an answer that is no success; what the page makes of it is what counts.
        const isNetwork = message.text().startsWith("Failed to load resource");
        if (message.type() === "error" && !isNetwork) errors.push(message.text());
      });
      context.on("weberror", (error) => errors.push(error.error().message));
      context.on("dialog", (dialog) => {
        errors.push(`a dialog: ${dialog.message()}`);
        void dialog.dismiss();
      });
    });
    expect(errors.filter((text) => !tolerated?.test(text))).toEqual([]);
  },

  context: async ({ context, watched }, use) => {
    watched(context);
    await use(context);
  },

  otherDevice: async ({ browser, baseURL, javaScriptEnabled, watched }, use) => {
    const contexts: BrowserContext[] = [];
    await use(async (person) => {
      const context = await browser.newContext({ baseURL, javaScriptEnabled });
      watched(context);
      contexts.push(context);
      const page = await context.newPage();
      if (person) await signIn(page, person);
      return page;
    });
    for (const context of contexts) await context.close();
  },
});

function settings(home: string, chosen: Setup, mail: MailServer, model: ModelServer): string {
  const lines = [`uploads = { max_file_mb = ${chosen.maxFile}, max_total_mb = ${chosen.maxFile * 4} }`];
  lines.push(`worker = { lease_seconds = ${chosen.lease}, grace_seconds = 2 }`);
  const source = (name: string) => {
    const folder = join(home, "documents", name);
    mkdirSync(folder, { recursive: true });
    lines.push("[[sources]]", `name = ${JSON.stringify(name)}`, `path = ${JSON.stringify(folder)}`);
    return folder;
  };
  for (const [name, files] of Object.entries(chosen.documents)) {
    const folder = source(name);
    for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
  }
  if (chosen.archive) fillArchive(source("Archive"));
  if (chosen.mail === "smtp") {
    lines.push("[mail]", 'channel = "smtp"', "[mail.smtp]", 'host = "127.0.0.1"', `port = ${mail.port}`);
    lines.push('security = "plain"', 'from = "Recount <recount@example.org>"');
  }
  if (chosen.summarizer === "model") {
    lines.push("[model]", 'provider = "open-ai-compatible"', 'model = "scripted"', `base_url = "${model.url}"`);
  }
  return `${lines.join("\n")}\n`;
}

/** One page with much markup and hardly any text, under many names: slow to read, small to keep. */
function fillArchive(folder: string): void {
  const first = join(folder, "2026-05-01-0000.html");
  writeFileSync(first, `<title>Archive</title><p>${"<b></b><i></i>".repeat(20_000)}An old page.</p>`);
  for (let number = 1; number < 2_000; number += 1) {
    linkSync(first, join(folder, `2026-05-01-${String(number).padStart(4, "0")}.html`));
  }
}

/** Signs in by the form. */
export async function signIn(page: Page, person: Person): Promise<void> {
  await page.goto("/sign-in");
  await page.getByLabel("E-mail address").fill(person.email);
  await page.getByLabel("Password").fill(person.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("heading", { name: "New report" })).toBeVisible();
}

/** What a test fills in; the rest stays as the form suggests. */
export interface Order {
  month?: string;
  sources?: string[];
  recipients?: string[];
  title?: string;
  /** The words of a choice before the e-mail. */
  hold?: string;
}

/** Fills in the form at its address. */
export async function fillIn(page: Page, { month = "2026-05", sources, recipients, title, hold }: Order = {}): Promise<void> {
  await page.goto("/");
  if (title !== undefined) await page.getByLabel("Title").fill(title);
  if (sources) {
    for (const box of await page.getByRole("group", { name: "Documents" }).getByRole("checkbox").all()) await box.uncheck();
    for (const name of sources) await page.getByRole("checkbox", { name }).check();
  }
  if (hold) await page.getByLabel("Before the e-mail goes out").selectOption({ label: hold });
  if (recipients) await page.getByLabel("Send the link to").fill(recipients.join(", "));
  await page.getByLabel("Month", { exact: true }).fill(month);
  // With a script this loses the focus, which is when the counts are asked for; without one it does nothing.
  await page.getByLabel("Month", { exact: true }).blur();
}

/** Orders a report and returns the address of its job. */
export async function generate(page: Page, order: Order = {}): Promise<string> {
  await fillIn(page, order);
  await page.getByRole("button", { name: /^Generate .*report$/ }).click();
  await page.waitForURL(/\/jobs\/[0-9a-f-]{36}$/);
  return new URL(page.url()).pathname;
}

/** The one sentence about the job. */
export const headline = (page: Page): Locator => page.locator("#headline");

/** The button, by its place: its word changes when it is pressed. */
export const cancelButton = (page: Page): Locator => page.locator("form.cancel button");

/** What stands beside the button. */
export const consequence = (page: Page): Locator => page.locator("#if-cancelled");

/** The line of a step. */
export const step = (page: Page, name: string): Locator =>
  page.getByRole("list", { name: "Steps" }).getByRole("listitem").filter({ hasText: name });

/** The row of something that the outside could see. */
export const effect = (page: Page, name: string): Locator => page.locator("table.effects tr").filter({ hasText: name });

/** Presses Cancel until it has arrived: without a script the page may reload itself under the mouse. */
export async function pressCancel(page: Page): Promise<void> {
  await expect(async () => {
    if (await cancelButton(page).isVisible()) await cancelButton(page).click({ timeout: 5_000 });
    await expect(cancelButton(page)).toBeHidden({ timeout: 5_000 });
  }).toPass();
}

/** The messages in the outbox folder. */
export function outbox(server: Recount): string[] {
  const folder = join(server.data, "outbox");
  return readdirSync(folder)
    .filter((name) => name.endsWith(".eml"))
    .map((name) => readFileSync(join(folder, name), "utf8"));
}
