create function pgq.extend_lease_batch(
    job_ids bigint[],
    lease_token uuid,
    lease interval default null,
    begun bigint[] default null
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
    perform pgq._check_leases(job_ids, lease_token, begun);

    return query select e from pgq._extend_lease(job_ids, lease_token, lease, begun) as e;
end
$$;

comment on function pgq.extend_lease_batch(bigint[], uuid, interval, bigint[]) is
'Extends the leases of jobs of one claim, and returns the ids of those that it extended.
See extend_lease. If an id is missing in the result, its lease has ended. begun: which of them were
prefetched and have begun, see claim_job.
Errors: 22004 a required argument is null, or a null is in job_ids or begun, 22023 bad lease, or
job_ids or begun of several dimensions, 40001 above READ COMMITTED when another transaction was
first (try again).';
