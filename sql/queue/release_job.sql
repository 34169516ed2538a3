create function pgq.release_job(
    job_id bigint,
    lease_token uuid,
    delay interval default null,
    error text default null
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

    if delay is not null then
        perform pgq._snooze(job_id, lease_token, delay);
    end if;
    return exists (select from pgq._nack(
        array[job_id], lease_token, coalesce(delay, '0'), error collate "C", 1
    ));
end
$$;

comment on function pgq.release_job(bigint, uuid, interval, text) is
'Gives a job back unused; false when the caller does not hold it any more.
This attempt does not count. Use it for jobs that a stopping worker has not begun; with a delay (a
snooze), for a job that cannot be done yet, any number of times. For a job that failed use nack.
delay: time until the job may be claimed again; by default it is due at once. error: why it cannot
be done yet, kept as the last error; by default the last error stays. get_job counts the snoozes; in
an ordered queue the other jobs of the key wait meanwhile.
False, and nothing changed: the token is not that of the latest claim, or the job is finished
already. An expired lease remains valid as long as no other worker got the job.
Errors: 22004 a required argument is null, 22023 bad delay, or the job would expire before it is due
again, 40001 above READ COMMITTED when another transaction was first (try again).';
