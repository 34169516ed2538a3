create function pgq.reject_job(
    job_id bigint,
    lease_token uuid,
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
set plan_cache_mode = force_generic_plan
as $$
declare
    held pgq.job;
begin
    perform pgq._check_lease(job_id, lease_token);
    perform pgq._check_attempt(worker, began_at);

    held := pgq._lock_leased(job_id, lease_token);
    if held.job_id is null then
        return false;
    end if;

    perform pgq._note_attempts(
        held.queue_id, array[job_id], 'rejected', 0, error collate "C", worker, began_at
    );
    perform pgq._dead_letter_jobs(
        array[job_id], -(held.last_attempt is null)::integer, false, error collate "C"
    );
    return true;
end
$$;

comment on function pgq.reject_job(bigint, uuid, text, text, timestamptz) is
'Makes a job a dead letter now; false when the caller does not hold it any more.
Use it for a job that no further attempt can do; the attempts that are left do not matter. error:
the reason; null: the error of the last nack stays. worker, began_at: see nack. redrive puts it
back. False, and nothing changed: the token is not that of the latest claim, or the job is finished
already. An expired lease remains valid as long as no other worker got the job.
Errors: 22004 a required argument is null, 22023 bad worker or began_at, 40001 above READ COMMITTED
when another transaction was first (try again).';
