create function pgq.nack_batch(
    job_ids bigint[],
    lease_token uuid,
    delay interval default null,
    error text default null,
    worker text default null,
    began_at timestamptz default null
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

    return query
    select n
    from pgq._nack(job_ids, lease_token, delay, error collate "C", 0, worker, began_at) as n;
end
$$;

comment on function pgq.nack_batch(bigint[], uuid, interval, text, text, timestamptz) is
'Gives jobs of one claim back for a retry, and returns the ids of those given back.
See nack.
Errors: 22004 a required argument is null, or a null is in job_ids, 22023 bad delay, worker or
began_at, or job_ids of several dimensions, 40001 above READ COMMITTED when another transaction was
first (try again).';
