// The line protocol of bench/README.md for peers written for Node.
import { createInterface } from "node:readline";

/** The machine's monotonic clock in nanoseconds: the one clock that all programs of the bench share. */
export const now = () => Number(process.hrtime.bigint());

export const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

const write = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

/** Reports an event of a job. */
export const say = (event, key) => write({ event, key, at: now() });

let counting = false;

/** Jobs without a key are only counted; the first of them says that the work has begun. */
function count() {
  if (counting) return;
  counting = true;
  say("first", "");
}

/**
 * Runs one job.
 * @param {{kind: "nothing" | "patient" | "stubborn", key?: string}} job
 * @param {AbortSignal | undefined} signal what the peer offers to tell a running handler of a cancel
 */
export async function perform({ kind, key }, signal) {
  if (!key) return count();
  say("began", key);
  if (kind === "patient") {
    await Promise.race([sleep(10_000), new Promise((resolve) => signal?.addEventListener("abort", resolve, { once: true }))]);
    if (signal?.aborted) say("told", key);
  }
  if (kind === "stubborn") {
    await sleep(3_000);
    say("ended", key);
  }
}

/** Obeys the commands on standard input one after the other until it closes. */
export async function serve(commands) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { do: name, ...parameters } = JSON.parse(line);
    try {
      write({ answer: (await commands[name](parameters)) ?? null });
    } catch (error) {
      write({ error: String(error?.stack ?? error) });
    }
  }
  process.exit(0);
}
