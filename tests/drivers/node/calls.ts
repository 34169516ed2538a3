// What a worker asks the database, and which errors pass. Times are in seconds.
import pg from "pg";

export interface Job {
  job_id: string; // a bigint may be larger than a number can hold
  lease_token: string;
  attempt: number;
  max_attempts: number | null;
  enqueued_at: Date;
  key: string | null;
  label: string | null;
  headers: { [name: string]: unknown } | null;
  body: Buffer | null;
}

// A payload comes as a text: one that cannot be read must not take other rows along.
const COLUMNS = `job_id, lease_token, attempt, max_attempts, enqueued_at, key, label, headers, body,
  payload::text`;
const WHERE = "queue => $1, label => $2, lease => make_interval(secs => $3)";

export const CLAIM = `select ${COLUMNS} from pgq.claim_job(${WHERE})`;
export const FINISH_AND_CLAIM = `select ${COLUMNS} from pgq.finish_and_claim(
  ${WHERE}, job_ids => array[$4::bigint], lease_token => $5)`;
export const NEXT_DUE = `select extract(epoch from
  pgq.next_due(queue => $1, label => $2) - clock_timestamp())::float8 as due_in`;
export const SETTINGS = `select extract(epoch from lease)::float8 as lease, notify, keep_results
  from pgq.list_queues() where queue = $1`;

// All of these begin with the job and its token, and answer whether the job was held.
export const EXTEND = "select pgq.extend_lease($1, $2, make_interval(secs => $3)) as held";
export const ACK = "select pgq.ack($1, $2) as held";
export const ARCHIVE = "select pgq.archive_job($1, $2, result => $3) as held";
export const RELEASE = "select pgq.release_job($1, $2, make_interval(secs => $3)) as held";
export const REJECT = "select pgq.reject_job($1, $2, $3, worker => $4, began_at => $5) as held";
export const NACK = `select pgq.nack($1, $2, error => $3, worker => $4, began_at => $5,
  delay => make_interval(secs => $6)) as held`;

export const HEARTBEAT = `select pgq.heartbeat(
  worker => $1, host => $2, pid => $3, sources => $4, running => $5, started_at => $6)`;
export const DELETE_WORKER = "select pgq.delete_worker($1)";

/** Whether the same call may succeed later: no connection, no room, another was first. */
export const passes = (error: unknown) => !(error instanceof pg.DatabaseError)
  || error.severity === "FATAL" || /^(08|40|53|57|25006|55P03)/.test(error.code ?? "");

/** What is stored of an error. */
export const text = (error: unknown) =>
  String(error instanceof Error ? error.message : error).replaceAll("\0", "\\0");
