create function pgq.release_job_batch(job_ids bigint[], lease_token uuid)
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

    return query select n from pgq._nack(job_ids, lease_token, '0', null, 1) as n;
end
$$;

comment on function pgq.release_job_batch(bigint[], uuid) is
'Gives jobs of one claim back unused, and returns the ids of those given back; see release_job.
If an id is missing in the result, its lease was lost.
Errors: 22004 a required argument is null, or a null is in job_ids, 22023 job_ids of several
dimensions, 40001 above READ COMMITTED when another transaction was first (try again).';
