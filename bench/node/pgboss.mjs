// pg-boss as a peer of the bench. Jobs are fetched in batches, which is its documented way to speed; a queue with heartbeats is the
// only one whose handlers can be told (by `job.signal`) that their job is no longer theirs, so the queue has them.
import { PgBoss } from "pg-boss";

import { now, perform, serve } from "./protocol.mjs";

const QUEUE = "bench";
const WORKERS = 4;
const boss = new PgBoss({ connectionString: process.argv[2], max: 16, useListenNotify: true });
boss.on("error", (error) => console.error(error.message));
let started;

const opened = () => (started ??= boss.start());

await serve({
  setup: async () => {
    await opened();
    await boss.createQueue(QUEUE, { notify: true, heartbeatSeconds: 10 });
  },
  work: async ({ slots }) => {
    await opened();
    await boss.work(
      QUEUE,
      {
        localConcurrency: WORKERS,
        batchSize: slots,
        burstWhenBatchFull: true,
        pollingIntervalSeconds: 0.5,
        heartbeatRefreshSeconds: 1,
      },
      (jobs) => Promise.all(jobs.map((job) => perform(job.data, job.signal))).then(() => null),
    );
  },
  fill: async ({ n }) => {
    await opened();
    await boss.insert(
      QUEUE,
      Array.from({ length: n }, () => ({ data: { kind: "nothing" } })),
    );
  },
  enqueue: async ({ kind, key }) => {
    await opened();
    const at = now();
    return { at, job: await boss.send(QUEUE, { kind, key }) };
  },
  cancel: async ({ job }) => {
    await opened();
    const at = now();
    const answer = await boss.cancel(QUEUE, job);
    return { at, said: `affected ${answer.affected}` };
  },
});
