import { defineConfig } from "@playwright/test";
import { chromium } from "./support/chromium.ts";

export default defineConfig({
  testDir: "tests",
  fullyParallel: true,
  workers: 2,
  retries: 0,
  forbidOnly: Boolean(process.env["CI"]),
  timeout: 120_000,
  // Two slow cores: what is waited for comes in milliseconds on an idle machine.
  expect: { timeout: 30_000, toPass: { timeout: 60_000 } },
  reporter: [["list"], ["./reporter.ts"]],
  outputDir: "test-results",
  use: { launchOptions: chromium(), actionTimeout: 30_000, navigationTimeout: 30_000, trace: "off", screenshot: "only-on-failure" },
  projects: [
    { name: "with-script" },
    { name: "without-script", use: { javaScriptEnabled: false }, testIgnore: "**/*.hydrate.spec.ts" },
  ],
});
