// Says at the very end, alone on a line, how many tests passed and failed.
import type { Reporter, TestCase } from "@playwright/test/reporter";

export default class Tally implements Reporter {
  private readonly tests: TestCase[] = [];

  onTestEnd(test: TestCase): void {
    if (!this.tests.includes(test)) this.tests.push(test);
  }

  onExit(): Promise<void> {
    const count = (outcome: ReturnType<TestCase["outcome"]>) => this.tests.filter((test) => test.outcome() === outcome).length;
    const skipped = count("skipped");
    const tail = skipped > 0 ? `, ${skipped} skipped` : "";
    console.log(`${count("expected") + count("flaky")} passed, ${count("unexpected")} failed${tail}`);
    return Promise.resolve();
  }

  printsToStdio(): boolean {
    return false;
  }
}
