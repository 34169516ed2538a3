create function pgq.archive_job(
    job_id bigint,
    lease_token uuid,
    outcome text default 'archived',
    result jsonb default null
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
    perform pgq._check_outcome(outcome collate "C");

    return exists (
        select
        from pgq._finish(
            array[job_id], lease_token, coalesce(outcome collate "C", 'archived'), result, true
        )
    );
end
$$;

comment on function pgq.archive_job(bigint, uuid, text, jsonb) is
'Finishes a job with an outcome; false when the caller does not hold it any more.
The job is recorded among the archived jobs, even if the archive setting of the queue is off.
outcome: a word of 1 to 63 characters, by default archived; acked, expired, cancelled and replaced
are reserved for pgq. result: any JSON. False, and nothing changed: the token is not that of the
latest claim, or the job is finished already. An expired lease remains valid as long as no other
worker got the job.
Errors: 22004 a required argument is null, 22023 bad outcome, 40001 above READ COMMITTED when
another transaction was first (try again).';
