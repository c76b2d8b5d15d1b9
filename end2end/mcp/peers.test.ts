// Servers that others have written, as sources of real reports: over stdio and HTTP, of this revision of the protocol (git)
// and of those before it (filesystem, everything). After the end and after a cancel no process of theirs is left.
import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { ada, hasEnded, Site, toml, until, type Job } from "./site.ts";
import { Wire } from "./wire.ts";

const FILESYSTEM = installed("server-filesystem");
const EVERYTHING = installed("server-everything");
const GIT = fileURLToPath(new URL("../../target/tools/mcp/bin/mcp-server-git", import.meta.url));

/** What each source has to tell about the month, in sentences that are long enough to be picked for the report. */
const TOLD = "The carpenters delivered the new saw to the workshop in Leipzig. The city paid 3,900 euros for it in advance.";

/** What happened after the month and must not be in its report. */
const LATER = "The old workshop was closed in June and its keys were given back to the city.";

/** A tool that is not done before the test is. */
const LONG = "trigger-long-running-operation";

let site: Site;
let everything: ChildProcess;
let wire: Wire;

before(async () => {
  const port = await freePort();
  const env = { ...process.env, PORT: `${port}` };
  everything = spawn(process.execPath, [EVERYTHING, "streamableHttp"], { env, stdio: "ignore" });
  wire = await Wire.to(`http://127.0.0.1:${port}`);
  await until(() => isThere(`http://127.0.0.1:${port}/mcp`), Boolean);
  site = await Site.open({ settings: (home) => sources(home, `${wire.url}/mcp`) });
});

after(async () => {
  await site.close();
  await wire.close();
  everything.kill("SIGKILL");
});

for (const name of ["Filesystem", "Git", "Everything", "Everything over HTTP"]) {
  test(`${name} server: what it gives is in the report`, async () => {
    const job = await ended(await order(name));
    assert.equal(job.phase, "finished", `${job.headline}: ${job.reason}`);
    assert.deepEqual(job.documents.map(({ source, state }) => [source, state]), [[name, "read"]]);
    const report = await site.api("GET", job.report_path ?? "");
    assert.ok(report.markdown.includes("The city paid 3,900 euros"), report.markdown);
    assert.ok(!report.markdown.includes("old workshop"), report.markdown);
    await site.quiet();
  });
}

for (const [name, sent] of [
  ["Slow", () => lines(join(site.home, "sent"))],
  ["Slow over HTTP", () => wire.heard],
] as const) {
  test(`${name} server: a cancel of the report takes the call back`, async () => {
    const id = await order(name);
    const started = () => messages(sent(), "tools/call").find((call) => call.params.name === LONG);
    const call = await until(started, (found) => found !== undefined);
    await site.api("PUT", `/jobs/${id}/cancellation`);
    const job = await ended(id);
    assert.equal(job.headline, "Cancelled. Nothing was saved or sent");
    // This server is of the revision with sessions, where over HTTP too a message takes a call back.
    const cancelled = messages(sent(), "notifications/cancelled");
    assert.deepEqual(cancelled.map((message) => message.params.requestId), [call?.id]);
    await site.quiet();
  });
}

async function order(source: string): Promise<string> {
  const report = { month: "2026-05", sources: [source], recipients: [ada.email], title: source };
  return (await site.api("POST", "/jobs", report)).id;
}

const ended = (id: string): Promise<Job> => site.jobWhen(id, hasEnded);

interface Message {
  id?: number | string;
  method?: string;
  params: { name?: string; requestId?: number | string };
}

function messages(sent: readonly string[], method: string): Message[] {
  const read: Message[] = sent.filter((text) => text.trim() !== "").map((text) => JSON.parse(text));
  return read.filter((message) => message.method === method);
}

/** The whole lines of a file that is being written. */
function lines(path: string): string[] {
  return existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : [];
}

/** What an administrator would write into recount.toml. The home's path is in every command, so that its process is found. */
function sources(home: string, url: string): string {
  const folder = join(home, "shared");
  mkdirSync(folder);
  writeFileSync(join(folder, "2026-05.md"), `# May\n\n${TOLD}\n`);
  const node = process.execPath;
  // As people wrap servers in shells and launchers; what is sent to it is kept.
  const tapped = ["sh", "-c", 'tee "$0" | "$@"', join(home, "sent"), node, EVERYTHING, "stdio", home];
  const file = { path: join(folder, "{month}.md") };
  const log = { repo_path: repository(home), max_count: 100, start_timestamp: "{start}", end_timestamp: "{next}" };
  const message = { message: `In {month}: ${TOLD}` };
  const long = { duration: 600, steps: 600 };
  return [
    source("Filesystem", { command: [node, FILESYSTEM, folder] }, "read_text_file", file),
    source("Git", { command: [GIT, "--repository", log.repo_path] }, "git_log", log),
    source("Everything", { command: [node, EVERYTHING, "stdio", home] }, "echo", message),
    source("Everything over HTTP", { url }, "echo", message),
    source("Slow", { command: tapped }, LONG, long),
    source("Slow over HTTP", { url }, LONG, long),
  ].join("\n");
}

function source(name: string, how: { command?: string[]; url?: string }, tool: string, given: object): string {
  return ["[[sources]]", toml({ name, ...how }), "[[sources.calls]]", toml({ tool, arguments: given }), ""].join("\n");
}

/** A repository with one commit of May and one of June. */
function repository(home: string): string {
  const folder = join(home, "repository");
  const git = (args: string[], env = {}) =>
    execFileSync("git", ["-C", folder, ...args], { env: { ...process.env, ...env }, stdio: "ignore" });
  const commit = (day: string, message: string) => {
    const author = ["-c", "user.name=Ada", "-c", `user.email=${ada.email}`];
    const dates = { GIT_AUTHOR_DATE: day, GIT_COMMITTER_DATE: day };
    git([...author, "commit", "--allow-empty", "--message", message], dates);
  };
  mkdirSync(folder);
  git(["init"]);
  commit("2026-05-12T09:00:00Z", TOLD);
  commit("2026-06-02T09:00:00Z", LATER);
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

function isThere(url: string): Promise<boolean> {
  return fetch(url).then(
    () => true,
    () => false,
  );
}
