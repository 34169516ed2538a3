create function pgq.retry_job(job_id bigint)
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
    if job_id is null then
        raise exception 'argument "job_id" must not be null' using errcode = '22004';
    end if;

    return pgq._retry_job(job_id, null);
end
$$;

comment on function pgq.retry_job(bigint) is
'Makes a job due now that waits for its time: for a retry, its delay or its run_at.
It keeps its attempts. False, and nothing changed: the job is already due, leased, blocked by
another job of its key, expired, a dead letter (see redrive), or has ended. The call may wait for a
transaction that has locked the job.
Errors: 22004 a required argument is null, 40001 above READ COMMITTED when another transaction was
first (try again).';
