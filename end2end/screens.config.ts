// `npm run screens`: pictures of every page and state into target/screens, to look at.
import { defineConfig } from "@playwright/test";
import { chromium } from "./support/chromium.ts";

export default defineConfig({
  testDir: ".",
  testMatch: "screens.ts",
  workers: 1,
  timeout: 600_000,
  expect: { timeout: 30_000, toPass: { timeout: 60_000 } },
  reporter: [["list"]],
  outputDir: "test-results",
  use: { launchOptions: chromium() },
});
