// Servers that others have written, as sources of real reports: over stdio and HTTP, of this revision of the protocol (git)
// and of those before it (filesystem, everything). After the end and after a cancel no process of theirs is left.
import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { ada, hasEnded, Site, until, type Job } from "./site.ts";

const FILESYSTEM = installed("server-filesystem");
const EVERYTHING = installed("server-everything");
const GIT = fileURLToPath(new URL("../../target/tools/mcp/bin/mcp-server-git", import.meta.url));

let site: Site;
let everything: ChildProcess;

before(async () => {
  const port = await freePort();
  everything = spawn(process.execPath, [EVERYTHING, "streamableHttp"], { env: { ...process.env, PORT: `${port}` }, stdio: "ignore" });
  const url = `http://127.0.0.1:${port}/mcp`;
  await until(() => answers(url), Boolean);
  site = await Site.open({ settings: (home) => sources(home, url) });
});

after(async () => {
  await site.close();
  everything.kill("SIGKILL");
});

for (const [source, expected] of [
  ["Filesystem server", ["read"]],
  ["Git server", ["read"]],
  ["Everything server", ["read"]],
  ["Everything server over HTTP", ["read"]],
] as const) {
  test(`${source}: its documents are in the report`, async () => {
    const job = await ended(await order(source));
    assert.equal(job.phase, "finished", `${job.headline}: ${job.reason}`);
    assert.deepEqual(job.documents.map((document) => document.state), expected, JSON.stringify(job.documents));
    await site.quiet();
  });
}

for (const source of ["Slow server", "Slow server over HTTP"]) {
  test(`${source}: a cancel ends the call and the job`, async () => {
    const id = await order(source);
    await site.jobWhen(id, (job) => job.steps[0]?.state === "running");
    await site.api("PUT", `/jobs/${id}/cancellation`);
    const job = await ended(id);
    assert.equal(job.headline, "Cancelled. Nothing was saved or sent");
    await site.quiet();
  });
}

async function order(source: string): Promise<string> {
  const report = { month: "2026-05", sources: [source], recipients: [ada.email], title: source };
  return (await site.api("POST", "/jobs", report)).id;
}

const ended = (id: string): Promise<Job> => site.jobWhen(id, hasEnded);

/** What an administrator would write into recount.toml. The home's path is in every command, so that its process is found. */
function sources(home: string, url: string): string {
  const folder = join(home, "shared");
  mkdirSync(folder);
  writeFileSync(join(folder, "2026-05.md"), "# May\n\nThe new saw was delivered on the fourth. It cost 3,900 euros.\n");
  const slow = { tool: "trigger-long-running-operation", arguments: { duration: 600, steps: 600 } };
  const echo = { tool: "echo", arguments: { message: "In {month} the shop sold 41 tables. The board was content." } };
  const node = [process.execPath, EVERYTHING, "stdio", home];
  return [
    source("Filesystem server", { command: [process.execPath, FILESYSTEM, folder] }, {
      tool: "read_text_file",
      arguments: { path: join(folder, "{month}.md") },
    }),
    source("Git server", { command: [GIT, "--repository", repository(home)] }, {
      tool: "git_log",
      arguments: { repo_path: join(home, "repository"), max_count: 100, start_timestamp: "{start}", end_timestamp: "{next}" },
    }),
    source("Everything server", { command: node }, echo),
    source("Everything server over HTTP", { url }, echo),
    source("Slow server", { command: node }, slow),
    source("Slow server over HTTP", { url }, slow),
  ].join("\n");
}

function source(name: string, how: { command: string[] } | { url: string }, call: { tool: string; arguments: object }): string {
  const [[key, value]] = Object.entries(how) as [[string, unknown]];
  const args = Object.entries(call.arguments).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  return [
    "[[sources]]",
    `name = ${JSON.stringify(name)}`,
    `${key} = ${JSON.stringify(value)}`,
    "[[sources.calls]]",
    `tool = ${JSON.stringify(call.tool)}`,
    `arguments = { ${args.join(", ")} }`,
    "",
  ].join("\n");
}

/** A repository with one commit of May and one of June. */
function repository(home: string): string {
  const folder = join(home, "repository");
  const git = (day: string, ...args: string[]) => {
    const dates = { GIT_AUTHOR_DATE: day, GIT_COMMITTER_DATE: day };
    const author = ["-c", "user.name=Ada", "-c", `user.email=${ada.email}`];
    execFileSync("git", ["-C", folder, ...author, ...args], { env: { ...process.env, ...dates }, stdio: "ignore" });
  };
  mkdirSync(folder);
  git("", "init");
  git("2026-05-12T09:00:00Z", "commit", "--allow-empty", "--message", "Print the price list with the new oak prices.");
  git("2026-06-02T09:00:00Z", "commit", "--allow-empty", "--message", "Close the old workshop.");
  return folder;
}

function installed(name: string): string {
  return fileURLToPath(new URL(`node_modules/@modelcontextprotocol/${name}/dist/index.js`, import.meta.url));
}

/** The server takes its port from a variable and does not tell which one it got. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    () => true,
    () => false,
  );
}
