create function pgq.claim_job(
    queue text,
    max_jobs integer default 1,
    lease interval default null,
    label text default null,
    max_bytes bigint default 67108864,
    prefetch boolean default false
)
returns setof pgq.claimed_job
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
    target_id bigint;
    lease_length interval;
    most_attempts integer;
    first_time timestamptz;
    first_id bigint;
    token uuid;
    now_at timestamptz;
    fast_path boolean;
    raised_at timestamptz;
    store_id bigint;
    store_offset bigint;
    ends_at timestamptz;
    leaf integer;
    job_error text;
    was_leased boolean;
    job_key text;
    job_attempts integer;
    extra_work boolean;
    job pgq.claimed_job;
begin
    if lease is not null then
        perform pgq._check_interval('lease', lease, false);
    end if;

    -- Fast path: one job of priority 0; _claim_jobs handles all other cases. Few conditions, no
    -- joins and no arrays, since each of them takes time.
    select
        q.queue_id, coalesce(claim_job.lease, q.lease), coalesce(q.max_attempts, 2147483647),
        gen_random_uuid(), pgq._clock(),
        (max_jobs <> 1) is not true
        and (max_bytes < 1) is not true
        and label is null
        and q.has_fast_claim
        and (
            current_setting('transaction_isolation') = 'read committed'
            or pgq._unchanged(q.queue_id)
        )
    into target_id, lease_length, most_attempts, token, now_at, fast_path
    from pgq.queue as q
    where q.queue = claim_job.queue collate "C" and (q.consumers is null or pgq._may(q.consumers));

    -- paste: parts/claim.plpgsql with most = coalesce(max_jobs,1), least = 1
end
$$;

comment on function pgq.claim_job(text, integer, interval, text, bigint, boolean) is
'Leases up to max_jobs (1 to 100000) jobs of a queue to the caller and returns them.
With the lease token, a worker calls ack (or archive_job) when it has finished a job, and nack when
the job failed; if it calls neither before leased_until, the next claim gets the job, with the next
attempt number. Jobs of a lower priority number come first, then those that have been due longest.
All jobs of one call have the same token. Concurrent claims get different jobs. A claim in a
transaction that is rolled back, or whose client dies before commit, has no effect. lease: how long
the caller has the jobs, counted from the time of the call, not from the start of the transaction;
by default the lease of the queue. label: only jobs with exactly this label. No row: no job is due,
the queue is paused, or one of its limits (max_leased, max_leased_per_key, rate_limit) is reached.
In a queue with such a limit claims wait for each other, until the transaction ends. max_bytes: the
most content to return, by default 64 MiB; at least one job is always returned. prefetch: only the
first of the jobs begins now. If its worker is lost, a job that has not begun loses no attempt; the
next claim returns it alone, since it may be the job that killed the worker. A job has begun once
extend_lease, or the argument begun of ack_batch or extend_lease_batch, names it. If the attempt of
a job is its max_attempts, name it before it begins: otherwise it may begin once more. Naming other
jobs is optional. cut_short is true if jobs were left out because of max_bytes, or because one is
returned alone.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 bad max_jobs, lease, label or
max_bytes, 40001 above READ COMMITTED when another transaction was first (try again).';
