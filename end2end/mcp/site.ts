// A running Recount with one person, her token and her documents, and its record as the JSON API shows it.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { SAMPLES } from "../support/documents.ts";
import { addUser, command, Recount } from "../support/recount.ts";

export const ada = { email: "ada@example.org", role: "user", password: "a horse in the workshop" } as const;

/** What the tests read of a job (docs/api.md). */
export interface Job {
  id: string;
  title: string;
  phase: "queued" | "running" | "stopping" | "cancelled" | "finished" | "failed";
  headline: string;
  reason: string | null;
  hold: object | null;
  cancel: { by: string } | null;
  steps: { kind: string; state: string }[];
  effects: { what: string; outcome: string }[];
  documents: { name: string; source: string; state: string; reason: string | null }[];
  report_path: string | null;
}

export const hasEnded = (job: Job): boolean => ["cancelled", "finished", "failed"].includes(job.phase);

export interface Setup {
  /** Lines of recount.toml after those of the sample folders. */
  settings?: (home: string) => string;
  environment?: Record<string, string>;
}

export class Site {
  private constructor(
    /** A folder of this site alone; what runs for it can be told by its path. */
    readonly home: string,
    readonly token: string,
    private readonly server: Recount,
  ) {}

  static async open({ settings = () => "", environment = {} }: Setup = {}): Promise<Site> {
    const home = mkdtempSync(join(tmpdir(), "recount-mcp-"));
    const data = join(home, "data");
    mkdirSync(data);
    writeFileSync(join(data, "recount.toml"), `${sampleFolders(home)}${settings(home)}`);
    addUser(data, ada);
    const token = command(["token", "create", "--data", data, "--email", ada.email]).trim();
    const server = new Recount(data, environment);
    await server.start();
    return new Site(home, token, server);
  }

  get data(): string {
    return this.server.data;
  }

  get url(): string {
    return this.server.url;
  }

  async close(): Promise<void> {
    await this.server.kill("SIGTERM");
    rmSync(this.home, { recursive: true });
    assert.ok(!this.server.output.includes("panicked"), this.server.output);
  }

  /** A request to the JSON API. */
  async api(method: string, path: string, body?: object): Promise<any> {
    const headers = {
      authorization: `Bearer ${this.token}`,
      "content-type": "application/json",
      "idempotency-key": crypto.randomUUID(),
    };
    const sent = body ? { body: JSON.stringify(body) } : {};
    const answer = await fetch(`${this.url}/api/v1${path}`, { method, headers, ...sent });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path} was answered with ${answer.status}: ${text}`);
    return JSON.parse(text);
  }

  job(id: string): Promise<Job> {
    return this.api("GET", `/jobs/${id}`);
  }

  /** The record of a job as soon as it is as wished. */
  jobWhen(id: string, wished: (job: Job) => boolean): Promise<Job> {
    return until(() => this.job(id), wished);
  }

  /** When the report is saved and its e-mail waits for an approval. */
  held(id: string): Promise<Job> {
    return this.jobWhen(id, (job) => job.hold !== null);
  }

  /** The job with this title as soon as there is one; a title is used once. */
  async jobTitled(title: string): Promise<Job> {
    const found = await until(
      async () => (await this.api("GET", "/jobs")).jobs.find((row: { title: string }) => row.title.includes(title)),
      (row) => row !== undefined,
    );
    return this.job(found.id);
  }

  /** The command lines of the processes that work in this site's folder, apart from its own server. */
  processes(): string[] {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(commandLine)
      .filter((line) => line.includes(this.home) && !line.includes("recount serve"));
  }

  /** When no process is left but its own server. */
  async quiet(): Promise<void> {
    await until(
      () => this.processes(),
      (left) => left.length === 0,
    );
  }
}

/** Reads until what is read is as wished, and fails with what was read last. */
export async function until<T>(read: () => T | Promise<T>, wished: (seen: T) => boolean, seconds = 30): Promise<T> {
  const deadline = performance.now() + seconds * 1000;
  for (;;) {
    const seen = await read();
    if (wished(seen)) return seen;
    if (performance.now() > deadline) assert.fail(`not as wished after ${seconds} s: ${JSON.stringify(seen)}`);
    await pause(50);
  }
}

/** The pairs as lines of TOML; JSON's strings, numbers and lists are written alike there, and null is not written at all. */
export function toml(pairs: object): string {
  const value = (given: unknown): string =>
    given !== null && typeof given === "object" && !Array.isArray(given)
      ? `{ ${assignments(given).join(", ")} }`
      : JSON.stringify(given);
  const assignments = (object: object) =>
    Object.entries(object)
      .filter(([, given]) => given !== null && given !== undefined)
      .map(([key, given]) => `${JSON.stringify(key)} = ${value(given)}`);
  return assignments(pairs).join("\n");
}

function sampleFolders(home: string): string {
  const lines: string[] = [];
  for (const [name, files] of Object.entries(SAMPLES)) {
    const folder = join(home, "documents", name);
    mkdirSync(folder, { recursive: true });
    for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
    lines.push("[[sources]]", toml({ name, path: folder }));
  }
  return `${lines.join("\n")}\n`;
}

/** Empty for a process that has ended meanwhile. */
function commandLine(id: string): string {
  try {
    return readFileSync(`/proc/${id}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
}
