// The official conformance suite against the real server, at the wire of the current revision and of the one before it.
//
// Every check must pass but those that expected/*.yml names, each with its reason there; one of those that passes after all
// fails the test as well. The fixture tools that the suite asks for are jobs of the real store (server/src/mcp/fixtures.rs).
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { Site } from "./site.ts";
import { Wire } from "./wire.ts";

const SUITE = fileURLToPath(new URL("node_modules/@modelcontextprotocol/conformance/dist/index.js", import.meta.url));

/** The scenarios of the Tasks extension. No suite but "all" has them, and that one at no fixed revision. */
const TASKS = [
  "lifecycle",
  "capability-negotiation",
  "wire-fields",
  "request-state-removal",
  "mrtr-input",
  "request-headers",
  "dispatch-and-envelope",
  "status-notifications",
  "required-task-error",
  "mrtr-composition",
];

let site: Site;
/** The suite has no option for a token. */
let wire: Wire;

before(async () => {
  site = await Site.open({ environment: { RECOUNT_MCP_FIXTURES: "1" } });
  wire = await Wire.to(site.url, { authorization: `Bearer ${site.token}` });
});

after(async () => {
  await wire.close();
  await site.close();
});

for (const revision of ["2026-07-28", "2025-11-25"]) {
  test(`conformance suite, revision ${revision}`, (t) => conforms(t, revision, ["--suite", "all", "--spec-version", revision]));
}

for (const scenario of TASKS) {
  test(`conformance suite, tasks: ${scenario}`, (t) => conforms(t, "2026-07-28", ["--scenario", `tasks-${scenario}`]));
}

interface Check {
  id: string;
  status: "SUCCESS" | "FAILURE" | "WARNING" | "SKIPPED" | "INFO";
  errorMessage?: string;
}

async function conforms(t: TestContext, expected: string, selection: string[]): Promise<void> {
  const results = mkdtempSync(join(site.home, "results-"));
  const baseline = fileURLToPath(new URL(`expected/${expected}.yml`, import.meta.url));
  const options = ["--url", `${wire.url}/mcp`, "--expected-failures", baseline, "--output-dir", results];
  const { code, output } = await run([SUITE, "server", ...options, ...selection]);
  const checks = readdirSync(results).flatMap((scenario) => {
    const found: Check[] = JSON.parse(readFileSync(join(results, scenario, "checks.json"), "utf8"));
    return found.map((check) => ({ ...check, scenario }));
  });
  const failed = checks.filter(({ status }) => status === "FAILURE" || status === "WARNING");
  const why = failed.map(({ scenario, id, errorMessage }) => `${scenario.replace(/-\d{4}-.*/, "")}:${id}: ${errorMessage}`);
  // The verdict is the suite's own, which names what it did not expect at the end.
  assert.equal(code, 0, `${why.join("\n")}\n${output.slice(-2000)}`);
  const passed = checks.filter(({ status }) => status === "SUCCESS");
  t.diagnostic(`${passed.length} checks passed, ${failed.length} failed as expected`);
}

function run(args: string[]): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    child.stdout.on("data", (chunk) => (output += chunk));
    child.stderr.on("data", (chunk) => (output += chunk));
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, output }));
  });
}
