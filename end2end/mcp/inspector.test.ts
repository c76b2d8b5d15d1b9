// The Inspector as an assistant, in both eras of the protocol and over both transports. What it says is held against the
// record; what Ctrl-C means to a report is read from the record alone.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ERAS, Inspection, TRANSPORTS, type Answer } from "./inspector.ts";
import { ada, hasEnded, Site } from "./site.ts";

const TOOLS = ["cancel_report", "generate_report", "get_report_status", "list_reports", "list_sources", "start_report"];

let site: Site;
before(async () => (site = await Site.open()));
after(() => site.close());

/** The order of a report; its title tells it from all others. */
const order = (title: string, hold = "none") => ({
  month: "2026-05",
  sources: ["Minutes", "Letters"],
  recipients: [ada.email],
  title,
  hold,
});

for (const transport of TRANSPORTS) {
  for (const era of ERAS) {
    const name = `Inspector, ${era} over ${transport}:`;
    const call = async (tool: string, args: object) => good(await Inspection.call(site, transport, era, tool, args).answer);
    const ask = async (method: string, ...options: string[]) =>
      good(await new Inspection(site, transport, era, method, options).answer);

    test(`${name} lists tools, sources and prompts`, async () => {
      const { tools } = await ask("tools/list");
      assert.deepEqual(tools.map((tool: { name: string }) => tool.name).sort(), TOOLS);
      const { structuredContent } = await call("list_sources", {});
      assert.deepEqual(structuredContent.sources.map((source: { name: string }) => source.name), ["Minutes", "Letters"]);
      const { prompts } = await ask("prompts/list");
      assert.ok(prompts.length > 0);
    });

    test(`${name} gets a report made and reads it`, async () => {
      const title = `Read by ${era} over ${transport}`;
      // A modern client is given a task and follows it to its end; one of before gets the job's handle at once.
      const hold = era === "modern" ? "none" : "approval";
      const started = (await call("start_report", order(title, hold))).structuredContent;
      assert.equal(started.is_final, era === "modern", started.headline);
      if (era === "legacy") {
        await site.held(started.job_id);
        await site.api("PUT", `/jobs/${started.job_id}/approval`);
      }
      const job = await site.jobWhen(started.job_id, hasEnded);
      assert.equal(job.phase, "finished", job.headline);
      assert.equal(job.documents.filter((document) => document.state === "read").length, 3);

      const { resources } = await ask("resources/list");
      const listed = resources.find((resource: { uri: string }) => resource.uri === `report://${job.id}`);
      assert.ok(listed?.title.includes(title), JSON.stringify(resources));
      const { contents } = await ask("resources/read", "--uri", listed.uri);
      const saved = await site.api("GET", job.report_path ?? "");
      assert.equal(contents[0].text, saved.markdown);
    });

    test(`${name} cancels a report that somebody else has started`, async () => {
      const { id } = await site.api("POST", "/jobs", order(`Cancelled by ${era} over ${transport}`, "approval"));
      await site.held(id);
      const { structuredContent } = await call("cancel_report", { job_id: id });
      assert.equal(structuredContent.outcome, "accepted");
      const job = await site.jobWhen(id, hasEnded);
      assert.equal(job.headline, "Cancelled. Report saved; email not started");
    });

    test(`${name} Ctrl-C in generate_report cancels the report`, async () => {
      const title = `Interrupted by ${era} over ${transport}`;
      const generating = Inspection.call(site, transport, era, "generate_report", order(title, "approval"));
      const { id } = await site.jobTitled(title);
      await site.held(id);
      await generating.interrupt();
      await site.quiet();
      const job = await site.jobWhen(id, hasEnded);
      assert.equal(job.headline, "Cancelled. Report saved; email not started");
      assert.ok(job.cancel);
    });
  }

  test(`Inspector, modern over ${transport}: Ctrl-C while it follows a task leaves the report alone`, async () => {
    const title = `Left alone over ${transport}`;
    const following = Inspection.call(site, transport, "modern", "start_report", order(title, "approval"));
    const { id } = await site.jobTitled(title);
    await site.held(id);
    await following.interrupt();
    await site.quiet();
    await site.api("PUT", `/jobs/${id}/approval`);
    const job = await site.jobWhen(id, hasEnded);
    assert.equal(job.phase, "finished", job.headline);
    assert.equal(job.cancel, null);
  });
}

function good({ code, result, errors }: Answer): any {
  assert.equal(code, 0, errors);
  assert.notEqual(result.isError, true, JSON.stringify(result));
  return result;
}
