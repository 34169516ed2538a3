// A worker for tests: node program.js QUEUE OPTIONS, with options of Worker as JSON. Payloads say
// what the handler does. It prints a line of JSON when a job begins and when its signal is aborted.
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { Job } from "./calls.js";
import { Reject, Retry, Snooze, Worker } from "./worker.js";

const connectionString = process.env.DATABASE_URL;
const connection = { connectionString, application_name: "pgq_test_node" };
const pool = new pg.Pool({ ...connection, max: 20 });
const gate = once(process.stdin, "data"); // the test opens it
const snoozed = new Set<string>();

function say(event: string, { job_id, attempt }: Job): void {
  console.log(JSON.stringify({ event, job_id: Number(job_id), attempt }));
}

/** What every worker of a fleet does: see test_node_fleet.py. */
async function turn({ n }: { n: number }, job: Job, signal: AbortSignal): Promise<unknown> {
  const client = await pool.connect();
  try {
    const { rows } = await client.query("select * from public.begin_turn($1, $2, 'node')",
      [job.job_id, job.key]);
    await sleep(Math.random() * 40);
    await client.query("select public.end_turn($1, $2)", [rows[0].turn, signal.aborted]);
    if (rows[0].turns === 1 && n % 7 === 0) throw new Error("the first turn fails");
    if (rows[0].turns === 1 && n % 11 === 0) throw new Snooze(0.01);
    return n % 2 ? undefined : n * n;
  } finally {
    client.release();
  }
}

async function handler(payload: any, job: Job, signal: AbortSignal): Promise<unknown> {
  say("begin", job);
  switch (payload.do) {
    case "turn":
      return turn(payload, job, signal);
    case "wait": // until the gate opens; deaf to its signal
      signal.addEventListener("abort", () => say(signal.reason.message, job));
      await gate;
      return "waited";
    case "fail":
      if (job.attempt === 1) throw new Error("no luck: \0");
      return "second";
    case "retry":
      if (job.attempt === 1) throw new Retry("busy", 0.01);
      return "second";
    case "reject":
      throw new Reject("no such place");
    case "nul":
      return "\0"; // no JSON of the database
    case "snooze":
      if (snoozed.has(job.job_id)) return "later";
      snoozed.add(job.job_id);
      throw new Snooze(payload.delay);
    default:
      return payload.value;
  }
}

process.on("SIGTERM", () => console.log(JSON.stringify({ event: "SIGTERM" })));
const [queue = "", options = "{}"] = process.argv.slice(2);
const worker = new Worker({ connection, queue, handler, ...JSON.parse(options) });
await worker.run();
process.exit(0); // a handler that was given up may still run
