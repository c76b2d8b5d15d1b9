// One line for each test, the error of those that failed, and at the very end, alone on a line, how many passed and failed.
import { inspect } from "node:util";

interface Event {
  type: string;
  data: { name: string; message: string; details: { duration_ms: number; error?: Error } };
}

export default async function* report(events: AsyncIterable<Event>): AsyncGenerator<string> {
  let passed = 0;
  let failed = 0;
  for await (const { type, data } of events) {
    if (type === "test:diagnostic" && !/^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) /.test(data.message)) {
      yield `  ${data.message}\n`;
    } else if (type === "test:pass") {
      passed += 1;
      yield `ok ${data.name} (${seconds(data)})\n`;
    } else if (type === "test:fail") {
      failed += 1;
      yield `FAILED ${data.name} (${seconds(data)})\n${inspect(data.details.error?.cause ?? data.details.error)}\n`;
    }
  }
  yield `${passed} passed, ${failed} failed\n`;
}

function seconds(data: Event["data"]): string {
  return `${(data.details.duration_ms / 1000).toFixed(1)} s`;
}
