// graphile-worker as a peer of the bench. The second argument "batched" turns on its local queue and the batching of completions.
import { Logger, makeWorkerUtils, run } from "graphile-worker";

import { now, perform, serve } from "./protocol.mjs";

const [connectionString, mode] = process.argv.slice(2);
const silent = new Logger(() => () => {});
let utils;
let runner;

const opened = async () => (utils ??= await makeWorkerUtils({ connectionString, logger: silent }));

await serve({
  setup: async () => (await opened()).migrate(),
  work: async ({ slots }) => {
    const batching = mode === "batched" ? { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } : {};
    runner = await run({
      preset: { worker: { connectionString, concurrentJobs: slots, maxPoolSize: slots + 2, ...batching } },
      noHandleSignals: true,
      logger: silent,
      taskList: { bench: (job, helpers) => perform(job, helpers.abortSignal) },
    });
  },
  fill: async ({ n }) => {
    const jobs = Array.from({ length: n }, () => ({ identifier: "bench", payload: { kind: "nothing" } }));
    await (await opened()).addJobs(jobs);
  },
  enqueue: async ({ kind, key }) => {
    const worker = await opened();
    const at = now();
    const job = await worker.addJob("bench", { kind, key }, { jobKey: key });
    return { at, job: job.id };
  },
  // The documented way to take a job back; it names the job by its key.
  cancel: async ({ key }) => {
    const worker = await opened();
    const at = now();
    const { rows } = await worker.withPgClient((client) =>
      client.query("select id, attempts, max_attempts from graphile_worker.remove_job($1)", [key]),
    );
    const [job] = rows;
    return { at, said: job?.id ? `job ${job.id}, attempts ${job.attempts} of ${job.max_attempts}` : "no such job" };
  },
});
