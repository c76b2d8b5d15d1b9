// The system's Chromium; nothing is downloaded for the tests.
import type { LaunchOptions } from "@playwright/test";
import { existsSync } from "node:fs";

const USUAL = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export function chromium(): LaunchOptions {
  return {
    executablePath: process.env["CHROMIUM"] ?? USUAL.find((path) => existsSync(path)) ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-first-run",
    ],
  };
}
