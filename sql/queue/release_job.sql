create function pgq.release_job(job_id bigint, lease_token uuid)
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

    return exists (select from pgq._nack(array[job_id], lease_token, interval '0', null, 1));
end
$$;

comment on function pgq.release_job(bigint, uuid) is
'Gives a job back unused; false when the caller does not hold it any more.
Use it in a worker that stops before it has begun: the job is due at once, this attempt does not
count, and its last error stays. A job that failed is given back by nack. False, and nothing
changed: the token is not that of the latest claim, or the job is finished already. An expired lease
still counts as long as no other worker got the job.
Errors: 22004 a required argument is null, 40001 above READ COMMITTED when another transaction was
first (try again).';
