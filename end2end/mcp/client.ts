// Recount as the conformance suite starts a client: it makes one report from the server whose address is the last argument.
// Whether the report comes about does not matter here; the suite looks at what its server was sent.
import { ada, hasEnded, Site, toml } from "./site.ts";

interface Call {
  name: string;
  arguments?: Record<string, unknown>;
}

/** The tools of the suite's servers, where a scenario does not say itself which to call. */
const CALLS: Record<string, Call[]> = {
  tools_call: [{ name: "add_numbers", arguments: { a: 5, b: 3 } }],
  "http-standard-headers": [{ name: "test_headers" }],
  "http-invalid-tool-headers": [{ name: "valid_tool", arguments: { region: "us-west1" } }],
  "json-schema-ref-no-deref": [{ name: "lookup_user", arguments: { id: "ada" } }],
  "sep-2322-client-request-state": [
    { name: "test_mrtr_echo_state" },
    { name: "test_mrtr_unrelated" },
    { name: "test_mrtr_no_result_type" },
  ],
};

const url = process.argv.at(-1);
const usual = CALLS[process.env["MCP_CONFORMANCE_SCENARIO"] ?? ""];
const told: { toolCalls?: Call[] } = JSON.parse(process.env["MCP_CONFORMANCE_CONTEXT"] ?? "{}");
const calls = told.toolCalls ?? usual ?? [];
const lines = calls.map((call) => ["[[sources.calls]]", toml({ tool: call.name, arguments: call.arguments ?? {} })]);
const source = ["[[sources]]", toml({ name: "Suite", url, resources: true }), ...lines.flat(), ""].join("\n");

const site = await Site.open({ settings: () => source });
const order = { month: "2026-05", sources: ["Suite"], recipients: [ada.email], title: "Suite" };
const { id } = await site.api("POST", "/jobs", order);
const job = await site.jobWhen(id, hasEnded);
console.log(job.headline, job.reason, JSON.stringify(job.documents));
await site.close();
