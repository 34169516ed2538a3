create function pgq.ack_batch(job_ids bigint[], lease_token uuid, begun bigint[] default null)
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

    if begun is not null then
        -- In the order of ids: a heartbeat may extend all of them at the same time.
        perform
        from pgq.job as j
        where j.job_id = any(job_ids[:] || begun) and j.lease_token = ack_batch.lease_token
        order by j.job_id
        for update;
    end if;
    return query select f from pgq._finish(job_ids, lease_token, 'acked', null, false) as f;

    if begun is not null then
        return query select e from pgq._extend_lease(begun, lease_token, null, begun) as e;
    end if;
end
$$;

comment on function pgq.ack_batch(bigint[], uuid, bigint[]) is
'Finishes jobs of one claim and returns the ids of those that it finished; see ack.
If an id is missing in the result, its lease was lost. begun: prefetched jobs of the same claim that
begin now, see claim_job; their leases are extended, and their ids returned, unless a lease has
ended.
Errors: 22004 a required argument is null, or a null is in job_ids or begun, 22023 job_ids or begun
of several dimensions, 40001 above READ COMMITTED when another transaction was first (try again).';
