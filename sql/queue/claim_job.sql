create function pgq.claim_job(
    queue text,
    max_jobs integer default 1,
    lease interval default null,
    label text default null
)
returns setof pgq.claimed_job
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    wanted integer := claim_job.max_jobs;
    target_id bigint;
    queue_lease interval;
    max_attempts integer;
    paused boolean;
    floor_times timestamptz[];
    floor_ids bigint[];
    first_time timestamptz;
    first_id bigint;
    recorded_at timestamptz;
    moment timestamptz;
    token uuid;
    number bigint;
    store_id bigint;
    store_offset bigint;
    leased_until timestamptz;
    leaf integer;
    delivery integer;
    job_label text;
begin
    if (wanted between 1 and 100000) is not true then
        perform pgq._check_count('max_jobs', wanted, 1, 100000);
    end if;
    if claim_job.lease is not null then
        perform pgq._check_interval('lease', claim_job.lease, false);
    end if;

    -- paste: parts/claim.plpgsql
end
$$;

comment on function pgq.claim_job(text, integer, interval, text) is
'Leases up to max_jobs (1 to 100000) jobs of a queue to the caller and returns them.
A worker that finishes calls ack (or archive_job), one that fails calls nack, with the lease
token; if it does neither before leased_until, the job goes to the next claim, with the next
attempt number. Lower priority numbers come first, then what is due longest. One call gives all
its jobs one token. Concurrent claims get different jobs and do not wait for each other. A claim
in a transaction that is rolled back, or whose client dies before commit, has not happened. lease:
how long the caller has the jobs, by the clock, not from the begin of the transaction; by default
what the queue says. label: only jobs with exactly this label. No row: nothing is due, or the
queue is paused.
Errors: MQ002 unknown queue, 22004 and 22023 bad arguments.';
