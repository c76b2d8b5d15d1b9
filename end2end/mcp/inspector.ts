// The command line of the MCP Inspector: a client that others have written, with another library than the server's.
import { spawn, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { PROGRAM } from "../support/recount.ts";
import { ada, type Site } from "./site.ts";

const INSPECTOR = fileURLToPath(
  new URL("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js", import.meta.url),
);

/** Revision 2026-07-28, or the handshake of those before it. */
export type Era = "modern" | "legacy";
export const ERAS: Era[] = ["modern", "legacy"];

export type Transport = "http" | "stdio";
export const TRANSPORTS: Transport[] = ["http", "stdio"];

export interface Answer {
  code: number | null;
  // The result of the method, whose shape is the method's.
  result: any;
  errors: string;
}

/** One run of the Inspector: it connects, calls one method and ends. */
export class Inspection {
  readonly answer: Promise<Answer>;
  private readonly child: ChildProcess;

  constructor(site: Site, transport: Transport, era: Era, method: string, options: string[] = []) {
    const http = [`${site.url}/mcp`, "--transport", "http", "--header", `Authorization: Bearer ${site.token}`];
    const stdio = ["--", PROGRAM, "mcp", "--data", site.data, "--user", ada.email];
    const asked = ["--protocol-era", era, "--method", method, ...options, "--format", "json", "--quiet"];
    const args = transport === "http" ? [...http, ...asked] : [...asked, ...stdio];
    // Its own folder for what it keeps about a person's servers.
    const env = { ...process.env, HOME: site.home };
    const child = spawn(process.execPath, [INSPECTOR, "--cli", ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
    this.child = child;
    this.answer = new Promise((resolve, reject) => {
      let output = "";
      let errors = "";
      child.stdout.on("data", (chunk) => (output += chunk));
      child.stderr.on("data", (chunk) => (errors += chunk));
      child.once("error", reject);
      child.once("close", (code) => {
        resolve({ code, result: code === 0 ? JSON.parse(output).result : null, errors: errors + output });
      });
    });
  }

  /** A tool call with its arguments. */
  static call(site: Site, transport: Transport, era: Era, tool: string, args: object): Inspection {
    return new Inspection(site, transport, era, "tools/call", ["--tool-name", tool, "--tool-args-json", JSON.stringify(args)]);
  }

  /** What Ctrl-C does. */
  async interrupt(): Promise<void> {
    this.child.kill("SIGINT");
    await this.answer;
  }
}
