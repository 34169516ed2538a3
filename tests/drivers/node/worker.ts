// A worker for a queue of pgq: python/docs/worker-protocol.md in TypeScript, on the driver pg.
//
// HAZARDS. Each job is done at least once. A handler cannot be stopped from outside: when its lease
// is lost, its signal is aborted and the worker goes on; one that ignores the signal may run beside
// its successor, in ordered queues too. One that computes for long without awaiting holds up the
// renewal of all leases of its process.
import { once } from "node:events";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import * as calls from "./calls.js";

/** Does a job. In a queue with keep_results, what it returns is the result of the job. */
export type Handler = (payload: any, job: calls.Job, signal: AbortSignal) => unknown;

export interface Options {
  connection: pg.PoolConfig;
  queue: string;
  handler: Handler;
  concurrency?: number; // jobs at a time; 1 by default
  label?: string; // only jobs with this label
  lease?: number; // seconds; by default the lease of the queue
  poll?: number; // seconds between two looks, at most; 5, or 1 in a queue without notify
  grace?: number; // seconds from the first stop until running jobs are given back; 30 by default
  log?: (message: string) => void; // console.error by default
}

/** Thrown by a handler: try again, after `delay` seconds instead of the backoff of the queue. */
export class Retry extends Error {
  constructor(message?: string, readonly delay?: number) { super(message); }
}
export class Reject extends Error {} // thrown by a handler: no attempt can do this job
/** Thrown by a handler: too early, again in `delay` seconds; no attempt is used. */
export class Snooze extends Error {
  constructor(readonly delay: number) { super(`again in ${delay} s`); }
}
export class LeaseLost extends Error {} // why a signal is aborted: another worker may have the job
export class Stopped extends Error {} // or this one ends

type Held = { job: calls.Job; payload: string | null; controller: AbortController; beganAt: Date;
  working: boolean; renewal: NodeJS.Timeout };

/** Milliseconds for a timer, which takes no more than 31 bits. */
const milliseconds = (seconds: number) => Math.min(Math.max(seconds * 1000, 0), 2 ** 31 - 1);

export class Worker {
  readonly name = `${hostname()}:${process.pid}:${Math.random().toString(36).slice(2, 8)}`;
  #options: Options;
  #pool: pg.Pool;
  #log: (message: string) => void;
  #held = new Set<Held>();
  #settings = { lease: 30, notify: false, keep_results: false };
  #stops = 0;
  #ended = new AbortController();
  #woken = false;
  #wake = () => {};
  #wakeUp = () => { this.#woken = true; this.#wake(); };
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: Options) {
    this.#options = options;
    this.#log = options.log ?? console.error;
    // A call of each slot, a renewal and a heartbeat: slots that wait hold up no lease.
    this.#pool = new pg.Pool({ max: (options.concurrency ?? 1) + 2, keepAlive: true,
      connectionTimeoutMillis: 10_000, query_timeout: 60_000, ...options.connection });
    this.#pool.on("error", () => {}); // of an idle connection: the next call opens another one
  }

  /** Work until `stop`, SIGTERM or SIGINT. */
  async run(): Promise<void> {
    const stop = () => this.stop();
    for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, stop);
    const background: Promise<void>[] = [];
    try {
      const { queue, concurrency = 1 } = this.#options;
      this.#settings = (await this.#call(calls.SETTINGS, [queue], true)).rows[0];
      if (!this.#settings) throw new Error(`queue "${queue}" does not exist`);
      background.push(this.#beat());
      if (this.#settings.notify) background.push(this.#listen());
      const failed = (error: unknown) => {
        if (!this.#stops) this.stop();
        if (!(error instanceof Stopped)) throw error;
      };
      const slots = Array.from({ length: concurrency }, () => this.#slot().catch(failed));
      await Promise.allSettled(slots);
      await Promise.all(slots);
    } catch (error) {
      if (!(error instanceof Stopped)) throw error;
    } finally {
      this.#held.forEach((held) => this.#letGo(held));
      this.#ended.abort();
      await Promise.all(background);
      await this.#pool.end();
      for (const signal of ["SIGTERM", "SIGINT"]) process.off(signal, stop);
    }
  }

  /** Begin nothing new, and end when running jobs have ended. Again: give them back now. */
  stop(): void {
    const stopped = new Stopped("the worker was stopped");
    if (this.#stops++) return this.#held.forEach((held) => this.#abort(held, stopped));
    setTimeout(() => this.stop(), milliseconds(this.#options.grace ?? 30)).unref();
    this.#wakeUp();
  }

  async #slot(): Promise<void> {
    for (let done: Held | undefined; done || !this.#stops;) {
      const held: Held | undefined = done ? await this.#exchange(done) : await this.#claim();
      done = held && (await this.#work(held)) ? held : undefined;
    }
  }

  /** Finish a job, and get the next one in the same transaction. */
  async #exchange(done: Held): Promise<Held | undefined> {
    try {
      if (!this.#stops) {
        const { job_id, lease_token } = done.job;
        const held = await this.#take(calls.FINISH_AND_CLAIM, [job_id, lease_token]);
        this.#letGo(done);
        return held;
      }
    } catch (error) {
      // Lost, or finished by a call whose answer was lost: ack knows.
      if (!(error instanceof Stopped) && (error as pg.DatabaseError).code !== "MQ006") throw error;
    }
    await this.#tell(done, calls.ACK);
  }

  /** One idle slot at a time looks for jobs; when it has found one, the next slot looks. */
  #claim(): Promise<Held | undefined> {
    const turn = this.#turn.then(async () => {
      while (!this.#stops) {
        this.#woken = false;
        const held = await this.#take(calls.CLAIM, []);
        if (held) return held;
        await this.#idle();
      }
    });
    this.#turn = turn.catch(() => {});
    return turn;
  }

  async #take(statement: string, values: unknown[]): Promise<Held | undefined> {
    const { queue, label, lease = this.#settings.lease } = this.#options;
    const sentAt = performance.now();
    const { rows } = await this.#call(statement, [queue, label, lease, ...values], true);
    if (!rows.length) return undefined;
    const held = this.#hold(rows[0], sentAt, lease);
    if (!this.#stops) return held;
    await this.#tell(held, calls.RELEASE, null); // it has not begun
  }

  /** Extend the lease of a job when a third has passed, until `#letGo`; abort when it is lost. */
  #hold({ payload, ...job }: any, sentAt: number, lease: number): Held {
    const controller = new AbortController();
    let from = sentAt; // the lease began then, or later, so it is held for longer than we think
    let asking = false;
    const renewal = setInterval(async () => {
      const now = performance.now();
      if (now >= from + lease * 900) this.#abort(held, new LeaseLost("the lease ran out"));
      if (asking || now < from + lease * 333 || controller.signal.aborted) return;
      asking = true;
      try {
        const { rows } = await this.#pool.query(calls.EXTEND, [job.job_id, job.lease_token, lease]);
        if (rows[0].held) from = now;
        else this.#abort(held, new LeaseLost("the lease was lost"));
      } catch (error) {
        this.#log(`job ${job.job_id}: the lease was not extended: ${calls.text(error)}`);
      }
      asking = false;
    }, milliseconds(lease / 12));
    const held = { job, payload, controller, beganAt: new Date(), working: true, renewal };
    this.#held.add(held);
    return held;
  }

  #abort(held: Held, reason: Error): void {
    if (held.working) held.controller.abort(reason);
  }

  #letGo(held: Held): void {
    clearInterval(held.renewal);
    this.#held.delete(held);
  }

  /** Call the handler; true: the job is done, and the next claim finishes it. */
  async #work(held: Held): Promise<boolean> {
    const { job, controller: { signal } } = held;
    const aborted = new Promise((_, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason)));
    try {
      const payload = held.payload === null ? null : JSON.parse(held.payload);
      const run = async () => this.#options.handler(payload, job, signal);
      const result = await Promise.race([run(), aborted]).finally(() => held.working = false);
      if (result == null || !this.#settings.keep_results) return true;
      const refused = await this.#tell(held, calls.ARCHIVE, JSON.stringify(result));
      if (refused) await this.#conclude(held, refused);
    } catch (error) {
      await this.#conclude(held, signal.aborted ? signal.reason : error);
    }
    return false;
  }

  async #conclude(held: Held, error: unknown): Promise<void> {
    const said = [calls.text(error), this.name, held.beganAt];
    let refused: unknown;
    if (error instanceof LeaseLost) {
      this.#log(`job ${held.job.job_id}: ${error.message}`);
      this.#letGo(held); // another worker may have it: nothing is written
    } else if (error instanceof Snooze) {
      refused = await this.#tell(held, calls.RELEASE, error.delay);
    } else if (error instanceof Stopped && held.job.max_attempts !== 1) {
      await this.#tell(held, calls.RELEASE, null); // with one attempt alone it must not begin again
    } else if (error instanceof Reject) {
      refused = await this.#tell(held, calls.REJECT, ...said);
    } else {
      const delay = error instanceof Retry ? error.delay : null;
      refused = await this.#tell(held, calls.NACK, ...said, delay);
    }
    // The job would expire before the snooze ends, or the encoding lacks a character of the error.
    if (refused) await this.#tell(held, calls.NACK, calls.text(refused), null, null, null);
  }

  /** Say what has become of a job; returns why the database has refused it. */
  async #tell(held: Held, statement: string, ...values: unknown[]): Promise<unknown> {
    const { job_id, lease_token } = held.job;
    try {
      const { rows } = await this.#call(statement, [job_id, lease_token, ...values]);
      if (!rows[0].held) this.#log(`job ${job_id} was not held any more, or has ended already`);
    } catch (error) {
      if (!(error instanceof Stopped)) return error;
      this.#log(`job ${job_id}: its lease will run out`);
    } finally {
      this.#letGo(held);
    }
  }

  /** A call, repeated while the server is away; claims until the first stop, others the second. */
  async #call(statement: string, values: unknown[], claims = false): Promise<pg.QueryResult> {
    for (let wait = 0.1; ; wait = Math.min(2 * wait, 5)) {
      try {
        return await this.#pool.query(statement, values);
      } catch (error) {
        if (!calls.passes(error)) throw error;
        if (this.#stops > (claims ? 0 : 1)) throw new Stopped("the worker was stopped");
        this.#log(`again in ${wait} s: ${calls.text(error)}`);
      }
      await sleep(milliseconds(wait * (0.5 + Math.random() / 2)));
    }
  }

  /** Wait until a job may be due, a notification comes, or it is time to look again. */
  async #idle(): Promise<void> {
    const { queue, label, poll } = this.#options;
    const { due_in } = (await this.#call(calls.NEXT_DUE, [queue, label], true)).rows[0];
    // What is due and cannot be had waits for a limit or a transaction, which nothing notifies.
    const wait = due_in === null ? Infinity : due_in > 0 ? due_in + 0.001 : 1;
    if (this.#woken || this.#stops) return;
    const longest = poll ?? (this.#settings.notify ? 5 : 1);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, milliseconds(Math.min(wait, longest)));
      this.#wake = () => { clearTimeout(timer); resolve(); };
    });
  }

  /** Hear of new jobs. Behind a pooler in transaction mode nothing is heard, and `poll` counts. */
  async #listen(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      const client = new pg.Client({ keepAlive: true, ...this.#options.connection });
      client.on("error", () => {}); // it ends
      client.on("notification", ({ payload }) => {
        if (!payload || payload === this.#options.queue) this.#wakeUp();
      });
      try {
        await client.connect();
        await client.query("listen pgq_queue");
        this.#wakeUp(); // what was enqueued before was not heard
        await once(client, "end", { signal });
      } catch (error) {
        if (!signal.aborted) this.#log(`hears no notifications: ${calls.text(error)}`);
      }
      client.end().catch(() => {});
      await sleep(1000, undefined, { signal }).catch(() => {});
    }
  }

  /** Show in list_workers that this worker is alive; nothing depends on it. */
  async #beat(): Promise<void> {
    const { signal } = this.#ended;
    const startedAt = new Date();
    const failed = (error: unknown) => this.#log(`no heartbeat: ${calls.text(error)}`);
    while (!signal.aborted) {
      await this.#pool.query(calls.HEARTBEAT, [this.name, hostname(), process.pid,
        [this.#options.queue], this.#held.size, startedAt]).catch(failed);
      await sleep(10_000, undefined, { signal }).catch(() => {});
    }
    await this.#pool.query(calls.DELETE_WORKER, [this.name]).catch(failed);
  }
}
