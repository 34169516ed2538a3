create function pgq.extend_lease(job_id bigint, lease_token uuid, lease interval default null)
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

    return exists (select from pgq._extend_lease(array[job_id], lease_token, lease, array[job_id]));
end
$$;

comment on function pgq.extend_lease(bigint, uuid, interval) is
'Extends the lease of a job; false when that lease has ended.
The lease then lasts for the given time from now, or as long as before if that is longer. lease: by
default that of the queue. False: the lease has run out, even if no other worker got the job, or was
never the caller''s, or the job is finished; stop working on it. A call for a prefetched job records
that it has begun, see claim_job.
Errors: 22004 a required argument is null, 22023 bad lease, 40001 above READ COMMITTED when
another transaction was first (try again).';
