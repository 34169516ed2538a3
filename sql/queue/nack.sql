create function pgq.nack(
    job_id bigint,
    lease_token uuid,
    delay interval default null,
    error text default null,
    worker text default null,
    began_at timestamptz default null
)
returns boolean
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    perform pgq._check_lease(job_id, lease_token);

    return exists (
        select
        from pgq._nack(array[job_id], lease_token, delay, error collate "C", 0, worker, began_at)
    );
end
$$;

comment on function pgq.nack(bigint, uuid, interval, text, text, timestamptz) is
'Gives a job back for a retry; false when the caller does not hold it any more.
delay: time until it may be claimed again, 0 = at once; by default the backoff of the queue: its
first delay, doubled with every attempt, up to its maximum, with some jitter. error: the reason of
the failure; the last one is kept with the job. worker (at most 255 characters), began_at: the name
of the worker and the start of the attempt, for job_history. A job that has used up its max_attempts
becomes a dead letter. False, and nothing changed: the token is not that of the latest claim, or the
job is finished already. An expired lease remains valid as long as no other worker got the job.
Errors: 22004 a required argument is null, 22023 bad delay, worker or began_at, 40001 above READ
COMMITTED when another transaction was first (try again).';
