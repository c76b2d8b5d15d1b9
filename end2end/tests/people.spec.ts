// Signing in and out, the first admin, one's own account.
import { ada, admin, bob, expect, signIn, test } from "../fixtures.ts";
import type { Page } from "@playwright/test";

async function attempt(page: Page, email: string, password: string): Promise<void> {
  await page.getByLabel("E-mail address").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
}

test("who is not signed in is sent to sign in and brought back", async ({ page }) => {
  await page.goto("/jobs?state=failed");
  await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
  await attempt(page, ada.email, ada.password);
  await expect(page.getByRole("heading", { name: "Jobs" })).toBeVisible();
  expect(new URL(page.url()).search).toBe("?state=failed");
});

test("a wrong password and an unknown address get the same answer, and five tries are enough", async ({ page }) => {
  await page.goto("/sign-in");
  const wrong = "That e-mail address and password do not belong together. Check both and try again.";
  await attempt(page, "nobody@example.org", "whatever it is");
  await expect(page.getByRole("alert")).toHaveText(wrong);
  for (let count = 0; count < 5; count += 1) {
    await page.goto("/sign-in");
    await attempt(page, ada.email, `wrong number ${count}`);
    await expect(page.getByRole("alert")).toHaveText(wrong);
    await expect(page.getByLabel("E-mail address")).toHaveValue(ada.email);
    await expect(page.getByLabel("Password")).toHaveValue("");
  }
  await page.goto("/sign-in");
  await attempt(page, ada.email, ada.password);
  await expect(page.getByRole("alert")).toHaveText("Too many attempts. Wait a few minutes, then try again.");
  // Only that account waits.
  await page.goto("/sign-in");
  await attempt(page, bob.email, bob.password);
  await expect(page.getByRole("heading", { name: "New report" })).toBeVisible();
});

test("another site is not gone to after signing in", async ({ page, server }) => {
  await page.goto("/sign-in?next=//evil.example/");
  await attempt(page, ada.email, ada.password);
  await expect(page.getByRole("heading", { name: "New report" })).toBeVisible();
  expect(page.url()).toBe(`${server.url}/`);
});

test("signing out ends the session on the server too", async ({ page, context }) => {
  await signIn(page, ada);
  const cookies = await context.cookies();
  await page.goto("/account");
  await page.getByRole("button", { name: "Sign out on this device" }).click();
  await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
  await context.addCookies(cookies);
  await page.goto("/jobs");
  await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
});

test("the time zone is changed, and an unknown one is named", async ({ page }) => {
  await signIn(page, ada);
  await page.goto("/account");
  await page.getByLabel("Your time zone").fill("Mars/Olympus");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("That is not a time zone. Write a name like Europe/Berlin or UTC.")).toBeVisible();
  await page.getByLabel("Your time zone").fill("Europe/Lisbon");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("That is not a time zone.", { exact: false })).toHaveCount(0);
  await expect(page.getByLabel("Your time zone")).toHaveValue("Europe/Lisbon");
  await page.goto("/");
  await expect(page.getByLabel("Time zone")).toHaveValue("Europe/Lisbon");
});

test("a token is shown once, works, and is revoked", async ({ page, playwright, server }) => {
  await signIn(page, ada);
  await page.goto("/account");
  await page.getByLabel("Name of a new token").fill("laptop");
  await page.getByRole("button", { name: "Make a token" }).click();
  const secret = (await page.getByLabel("New token", { exact: true }).innerText()).trim();
  expect(secret.length).toBeGreaterThan(20);
  await page.getByRole("link", { name: "Go back to the account" }).click();
  await expect(page.getByLabel("New token", { exact: true })).toHaveCount(0);
  await expect(page.locator("body")).not.toContainText(secret);
  await expect(page.getByRole("listitem").filter({ hasText: "laptop" })).toContainText("never used");

  const program = await playwright.request.newContext({ baseURL: server.url, extraHTTPHeaders: { authorization: `Bearer ${secret}` } });
  expect((await program.get("/api/v1/jobs")).status()).toBe(200);
  await page.goto("/account");
  await page.getByRole("button", { name: "Revoke laptop" }).click();
  await expect(page.getByText("No token has been made.")).toBeVisible();
  expect((await program.get("/api/v1/jobs")).status()).toBe(401);
  await program.dispose();
});

test("another device is signed out from here", async ({ page, otherDevice }) => {
  await signIn(page, ada);
  const phone = await otherDevice(ada);
  await page.goto("/account");
  await expect(page.getByRole("listitem").filter({ hasText: "this device" })).toHaveCount(1);
  await page.getByRole("listitem").getByRole("button", { name: /^Sign out / }).click();
  await expect(page.getByRole("listitem").getByRole("button")).toHaveCount(0);
  await phone.goto("/jobs");
  await expect(phone.getByRole("heading", { name: "Sign in" })).toBeVisible();
});

test("a request that another site's page sends is refused", async ({ page, server }) => {
  await signIn(page, ada);
  const answer = await page.request.post("/account/zone", {
    form: { zone: "Asia/Tokyo" },
    headers: { origin: "https://evil.example", "sec-fetch-site": "cross-site" },
  });
  expect(answer.status()).toBe(403);
  await page.goto(`${server.url}/account`);
  await expect(page.getByLabel("Your time zone")).toHaveValue("UTC");
});

test.describe("before there are people", () => {
  test.use({ setup: { people: false } });

  test("the code from the terminal makes the first admin", async ({ page, server, otherDevice }) => {
    const code = /with the code (\S+)/.exec(server.output)?.[1] ?? "";
    expect(code).toMatch(/^\w{4}-\w{4}$/);
    const fill = async (typed: string, password: string) => {
      await page.getByLabel("Code from the terminal").fill(typed);
      await page.getByLabel("E-mail address").fill(admin.email);
      await page.getByLabel("Password").fill(password);
      await page.getByRole("button", { name: "Make the first admin" }).click();
    };
    await page.goto("/");
    await expect(page.getByRole("heading", { name: "Set up Recount" })).toBeVisible();
    await fill("0000-0000", admin.password);
    await expect(page.getByRole("alert")).toHaveText(
      "That is not the code from the terminal. Copy it from where the server was started.",
    );
    await fill(code, admin.email);
    await expect(page.getByRole("alert")).toContainText("Take at least 10 characters");
    await fill(code.toLowerCase(), admin.password);
    await expect(page.getByRole("heading", { name: "New report" })).toBeVisible();
    await expect(page.getByRole("link", { name: "Effects" })).toBeVisible();

    const stranger = await otherDevice();
    await stranger.goto("/sign-in");
    await expect(stranger.getByRole("heading", { name: "Sign in" })).toBeVisible();
    await expect(stranger.getByLabel("Code from the terminal")).toHaveCount(0);
  });
});
