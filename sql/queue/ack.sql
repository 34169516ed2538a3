create function pgq.ack(job_id bigint, lease_token uuid)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    finished pgq.job;
begin
    if ack.job_id is null or ack.lease_token is null then
        perform pgq._check_lease(ack.job_id, ack.lease_token);
    end if;

    -- What _finish does for many, in two plain statements: for one job they take less time.
    delete from pgq.job as j
    where j.job_id = ack.job_id
        and j.lease_token = ack.lease_token
    returning j.*
    into finished;

    if finished.job_id is null then
        return false;
    end if;

    insert into pgq.job_archive (
        job_id, queue_id, ended_at, segment, attempt, outcome, label, last_error
    )
    select
        finished.job_id,
        finished.queue_id,
        pgq._clock(),
        finished.segment,
        finished.attempt,
        'acked',
        finished.label,
        finished.last_error
    from pgq.queue as q
    where q.queue_id = finished.queue_id
        and q.archive;

    return true;
end
$$;

comment on function pgq.ack(bigint, uuid) is
'Finishes a job and says whether it did.
The queue notes it among the archived jobs, unless its archive setting is off. False, and nothing
changed: the token is not that of the latest claim, or the job is finished already. A lease that
has run out still counts as long as no other worker got the job.
Errors: 22004 null argument.';
