// Tokens that may only look, and the page that connects an assistant.
import { ada, admin, expect, generate, headline, signIn, test } from "../fixtures.ts";
import type { APIRequestContext, Page, PlaywrightWorkerArgs } from "@playwright/test";

/** The text of what is to be copied. */
async function shown(page: Page, name: string): Promise<string> {
  return (await page.getByLabel(name, { exact: true }).innerText()).trim();
}

/** Shows that a token may look at a job and not cancel it. */
async function mayOnlyLook({ request }: PlaywrightWorkerArgs["playwright"], url: string, job: string, secret: string): Promise<void> {
  const program: APIRequestContext = await request.newContext({ baseURL: url, extraHTTPHeaders: { authorization: `Bearer ${secret}` } });
  expect(await (await program.get(`/api/v1${job}`)).json()).toMatchObject({ phase: "running" });
  const refused = await program.put(`/api/v1${job}/cancellation`);
  expect(refused.status()).toBe(403);
  expect(await refused.json()).toMatchObject({ type: "/problems/insufficient-scope", detail: expect.stringContaining("This token may only look") });
  expect(await (await program.get(`/api/v1${job}`)).json()).toMatchObject({ phase: "running", cancel: null });
  await program.dispose();
}

/** A job that waits, so that there is something to cancel. */
async function waiting(page: Page): Promise<string> {
  const job = await generate(page, { hold: "Wait for my approval" });
  await expect(headline(page)).toHaveText("Report saved; email not sent yet");
  return job;
}

test("a token of the account page that may only look cannot cancel", async ({ page, playwright, server }) => {
  await signIn(page, ada);
  const job = await waiting(page);
  await page.goto("/account");
  await page.getByLabel("Name of a new token").fill("reader");
  await page.getByRole("checkbox", { name: /^It may only look/ }).check();
  await page.getByRole("button", { name: "Make a token" }).click();
  const secret = await shown(page, "New token");
  await page.getByRole("link", { name: "Go back to the account" }).click();
  await expect(page.getByRole("listitem").filter({ hasText: "reader" })).toContainText("may only look");
  await mayOnlyLook(playwright, server.url, job, secret);
});

test("the configuration for an assistant holds a new token, once", async ({ page, playwright, server }) => {
  await signIn(page, ada);
  const job = await waiting(page);
  await page.goto("/account");
  await page.getByRole("link", { name: "Connect an assistant" }).click();
  await expect(page.getByRole("heading", { name: "Connect an assistant" })).toBeVisible();
  await expect(page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Account" })).toHaveAttribute("aria-current", "page");
  expect(await shown(page, "Configuration as JSON")).toContain("Bearer rct_…");

  // Without a mouse.
  await page.getByLabel("Name of the token").focus();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("radio", { name: "It may start and cancel reports." })).toBeFocused();
  await page.keyboard.press("ArrowDown");
  await expect(page.getByRole("radio", { name: "It may only look." })).toBeChecked();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");

  await expect(page.getByText("The token Assistant is made.")).toBeVisible();
  const { mcpServers } = JSON.parse(await shown(page, "Configuration as JSON"));
  expect(mcpServers.recount).toMatchObject({ type: "http", url: `${server.url}/mcp` });
  const [scheme, secret] = mcpServers.recount.headers.Authorization.split(" ");
  expect(scheme).toBe("Bearer");
  expect(secret).toMatch(/^rct_[\w-]{40,}$/);
  expect(await shown(page, "Configuration on the command line")).toBe(
    `claude mcp add --transport http recount ${server.url}/mcp --header "Authorization: Bearer ${secret}"`,
  );
  expect(page.url()).not.toContain(secret);
  await mayOnlyLook(playwright, server.url, job, secret);

  // The browser sends the form again.
  await page.reload();
  await expect(page.getByRole("alert")).toContainText("This token was made already, and it is shown only once.");
  expect(await page.content()).not.toContain(secret);
  await page.getByRole("link", { name: "Account" }).first().click();
  await expect(page.getByRole("listitem").filter({ hasText: "Assistant" })).toHaveCount(1);
  expect(await page.content()).not.toContain(secret);
});

test("one click selects the configuration, and a button copies it where scripts run", async ({ page, context, scripted }) => {
  await signIn(page, ada);
  await page.goto("/account/assistant");
  const json = page.getByLabel("Configuration as JSON", { exact: true });
  await json.click();
  const selected = await page.evaluate(() => getSelection()?.toString());
  expect(selected).toBe(await json.textContent());
  await expect(page.getByRole("button", { name: /^Copy/ })).toHaveCount(scripted ? 2 : 0);
  if (!scripted) return;
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("button", { name: "Copy: Configuration on the command line" }).click();
  await expect(page.getByRole("button", { name: "Copied: Configuration on the command line" })).toHaveText("Copied");
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(await shown(page, "Configuration on the command line"));
});

test("only an administrator is told where the data is, and the page fits a phone", async ({ page, server, otherDevice }) => {
  await signIn(page, ada);
  const office = await otherDevice(admin);
  for (const [who, on, folder] of [[ada, page, "DATA-FOLDER"], [admin, office, server.data]] as const) {
    await on.setViewportSize({ width: 390, height: 800 });
    await on.goto("/account/assistant");
    await on.getByText("On the machine that Recount runs on").click();
    const { mcpServers } = JSON.parse(await shown(on, "Configuration on the machine itself"));
    expect(mcpServers.recount).toEqual({ command: "recount", args: ["mcp", "--user", who.email, "--data", folder] });
    expect(await on.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
  }
});
