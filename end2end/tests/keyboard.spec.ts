// From signing in to a cancel with the keyboard alone.
import type { Page } from "@playwright/test";
import { ada, expect, headline, test } from "../fixtures.ts";

test.use({ setup: { summarizer: "model" } });

const JOB = "**/jobs/*";

/** Keeps the page of a running job as it is: to an answer without content a browser stays where it is. */
async function hold(page: Page): Promise<void> {
  await page.route(JOB, (route) => (route.request().isNavigationRequest() ? route.fulfill({ status: 204 }) : route.continue()));
}

test("signing in, ordering and cancelling go without a mouse", async ({ page, model }) => {
  const answer = model.hold();
  /** Presses Tab until the element has the focus, as somebody would who cannot point at it. */
  const tabTo = async (role: "button" | "textbox" | "link", name: string | RegExp) => {
    const wanted = page.getByRole(role, { name });
    await expect(wanted.first()).toBeVisible();
    for (let presses = 0; presses < 40; presses += 1) {
      await page.keyboard.press("Tab");
      if (await wanted.evaluateAll((found) => found.includes(document.activeElement as HTMLElement))) return;
    }
    throw new Error(`Tab does not lead to ${name}`);
  };
  await page.goto("/");
  await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: "Skip to the content" })).toBeFocused();
  await tabTo("textbox", "E-mail address");
  await page.keyboard.type(ada.email);
  await page.keyboard.press("Tab");
  await page.keyboard.type(ada.password);
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "New report" })).toBeVisible();

  // Enter in a field checks the form and sends nothing.
  await tabTo("textbox", "Title");
  await page.keyboard.type("By keyboard");
  await page.keyboard.press("Enter");
  await page.waitForURL(/draft=/);
  await expect(page.getByLabel("Title")).toHaveValue("By keyboard");
  expect(model.prompts).toEqual([]);
  await page.getByLabel("Month", { exact: true }).fill("2026-05");
  await tabTo("button", /^Generate/);
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/jobs\//);
  await answer.reached;
  await expect(headline(page)).toHaveText("Summarizing");
  await hold(page);
  await tabTo("button", "Cancel");
  await page.keyboard.press("Enter");
  await page.unroute(JOB);
  await expect(headline(page)).toHaveText("Cancelled. Nothing was saved or sent");
});
