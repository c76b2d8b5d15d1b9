// The official conformance suite against Recount as a server and as a client, at the wire of the current revision and of the one
// before it.
//
// Every check must pass but those that expected/*.yml names, each with its reason there; one of those that passes after all
// fails the test as well. The tools that the suite asks for are orders of real reports (server/src/mcp/server/fixtures.rs).
// What is left out whole: skills, which Recount has none of; how clients get tokens from an authorization server, since Recount's
// are made by people and sent as they are; and tasks-status-notifications, which the suite skips itself.
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
  "required-task-error",
  "mrtr-composition",
];

/** How Node runs a program of ours (package.json). */
const TYPESCRIPT = ["--experimental-transform-types", "--disable-warning=ExperimentalWarning"];

/**
 * The scenarios for clients at each revision. Two of 2025-11-25 cannot be tried: the servers of `initialize` and `sse-retry`
 * answer the question for the current revision, which they do not know, as if they did.
 */
const CLIENT = {
  "2026-07-28": [
    "tools_call",
    "request-metadata",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
    "sep-2322-client-request-state",
  ],
  "2025-11-25": ["tools_call", "elicitation-sep1034-client-defaults", "json-schema-2020-12-preservation"],
};

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
  test(`conformance suite, server at ${revision}`, (t) => serves(t, revision, ["--suite", "all", "--spec-version", revision]));
}

for (const scenario of TASKS) {
  test(`conformance suite, server: tasks-${scenario}`, (t) => serves(t, "2026-07-28", ["--scenario", `tasks-${scenario}`]));
}

for (const [revision, scenarios] of Object.entries(CLIENT)) {
  for (const scenario of scenarios) {
    test(`conformance suite, client at ${revision}: ${scenario}`, (t) => {
      const command = [process.execPath, ...TYPESCRIPT, fileURLToPath(new URL("client.ts", import.meta.url))];
      const selection = ["--scenario", scenario, "--spec-version", revision];
      return conforms(t, revision, ["client", "--command", command.join(" "), ...selection]);
    });
  }
}

function serves(t: TestContext, revision: string, selection: string[]): Promise<void> {
  return conforms(t, revision, ["server", "--url", `${wire.url}/mcp`, ...selection]);
}

interface Check {
  id: string;
  status: "SUCCESS" | "FAILURE" | "WARNING" | "SKIPPED" | "INFO";
  errorMessage?: string;
}

async function conforms(t: TestContext, expected: string, asked: string[]): Promise<void> {
  const results = mkdtempSync(join(site.home, "results-"));
  const baseline = fileURLToPath(new URL(`expected/${expected}.yml`, import.meta.url));
  const { code, output } = await run([SUITE, ...asked, "--expected-failures", baseline, "--output-dir", results]);
  const checks = readdirSync(results).flatMap((scenario) => {
    const found: Check[] = JSON.parse(readFileSync(join(results, scenario, "checks.json"), "utf8"));
    return found.map((check) => ({ ...check, scenario }));
  });
  const failed = checks.filter(({ status }) => status === "FAILURE" || status === "WARNING");
  const why = failed.map(({ scenario, id, errorMessage }) => `${scenario.replace(/-\d{4}-.*/, "")}:${id}: ${errorMessage}`);
  // The verdict is the suite's own, which names what it did not expect at the end.
  assert.equal(code, 0, `${why.join("\n")}\n${output.slice(-2000)}`);
  const passed = checks.filter(({ status }) => status === "SUCCESS");
  assert.ok(passed.length + failed.length > 0, `nothing was checked:\n${output}`);
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
