// The real program as a child process of a test.
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const PROGRAM = process.env["RECOUNT"] ?? fileURLToPath(new URL("../../target/debug/recount", import.meta.url));

export interface Person {
  email: string;
  role: "admin" | "user";
  password: string;
}

/** Runs a command to its end and returns what it printed. */
export function command(args: string[], input = ""): string {
  if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} is missing. Build it with: cargo build -p server`);
  const run = spawnSync(PROGRAM, args, { input, encoding: "utf8" });
  if (run.status !== 0) throw new Error(`recount ${args.join(" ")} ended with ${run.status}: ${run.stderr}`);
  return run.stdout;
}

export function addUser(data: string, { email, role, password }: Person): void {
  command(["user", "add", "--data", data, "--email", email, "--role", role], `${password}\n`);
}

/** A running server; after a kill it can be started again at the same address. */
export class Recount {
  /** Everything that it printed, of all its runs. */
  output = "";
  private child: ChildProcess | null = null;
  private listen = "127.0.0.1:0";

  constructor(
    readonly data: string,
    private readonly environment: Record<string, string> = {},
  ) {}

  get url(): string {
    return `http://${this.listen}`;
  }

  get port(): number {
    return Number(this.listen.split(":")[1]);
  }

  /** Starts it and waits until it takes requests. */
  async start(): Promise<void> {
    const child = spawn(PROGRAM, ["serve", "--data", this.data, "--listen", this.listen], {
      env: { ...process.env, ...this.environment },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child = child;
    const address = await new Promise<string>((resolve, reject) => {
      let printed = "";
      const hear = (chunk: Buffer) => {
        this.output += chunk;
        printed += chunk;
        const found = /Recount is at http:\/\/(127\.0\.0\.1:\d+)/.exec(printed)?.[1];
        if (found) resolve(found);
      };
      child.stdout.on("data", hear);
      child.stderr.on("data", hear);
      child.once("error", reject);
      child.once("exit", (code, signal) => reject(new Error(`the server ended with ${code ?? signal}:\n${printed}`)));
    });
    this.listen = address;
  }

  /** Ends it and waits until it is gone. */
  async kill(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    const child = this.child;
    this.child = null;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await gone;
  }
}
