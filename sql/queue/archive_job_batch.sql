create function pgq.archive_job_batch(
    job_ids bigint[],
    lease_token uuid,
    outcome text default 'archived',
    result jsonb default null
)
returns table (job_id bigint)
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    perform pgq._check_leases(job_ids, lease_token);
    perform pgq._check_outcome(outcome collate "C");

    return query
    select f
    from pgq._finish(
        job_ids, lease_token, coalesce(outcome collate "C", 'archived'), result, true
    ) as f;
end
$$;

comment on function pgq.archive_job_batch(bigint[], uuid, text, jsonb) is
'Finishes jobs of one claim with one outcome and result, and returns the ids of those finished.
See archive_job.
Errors: 22004 a required argument is null, or a null is in job_ids, 22023 bad outcome, or job_ids of
several dimensions, 40001 above READ COMMITTED when another transaction was first (try again).';
