create function pgq.cancel_job(job_id bigint)
returns boolean
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
    gone pgq.job;
begin
    if job_id is null then
        raise exception 'argument "job_id" must not be null' using errcode = '22004';
    end if;

    -- A missing row may have been replaced (delete and insert) while this statement waited. Above
    -- READ COMMITTED its absence has to be proved.
    loop
        if pgq._hides_job(job_id) then
            return false;
        end if;

        delete from pgq.job as j where j.job_id = cancel_job.job_id returning j.* into gone;

        exit when found;
        perform pgq._still_leased(array[job_id], null);
        if not exists (select from pgq.job as j where j.job_id = cancel_job.job_id) then
            return false;
        end if;
    end loop;

    perform pgq._lock_leaf(gone.segment);
    insert into pgq.job_archive (
        job_id,
        queue_id,
        ended_at,
        segment,
        attempt,
        outcome,
        label,
        last_error,
        partition_id,
        log_offset
    )
    select
        gone.job_id,
        gone.queue_id,
        pgq._clock(),
        gone.segment,
        gone.attempt,
        'cancelled',
        gone.label,
        gone.last_error,
        nullif(gone.partition_id, q.partition_id),
        case when gone.partition_id <> q.partition_id then gone.log_offset end
    from pgq.queue as q
    where q.queue_id = gone.queue_id and q.archive;

    if gone.due_at is not null then
        -- Blocked by another job of its key: the key does not change.
        gone.ordered_key := null;
    end if;
    if gone.unique_key is not null or gone.ordered_key is not null then
        perform pgq._free_keys(array[
            row(gone.job_id, gone.queue_id, gone.unique_key, gone.ordered_key)::pgq._ended_job
        ]);
    end if;
    return true;
end
$$;

comment on function pgq.cancel_job(bigint) is
'Cancels an unfinished job; false when it has ended already, or no job has this id.
No worker gets it any more. A worker that holds it learns so by its next extend_lease, ack, nack or
archive_job, which returns false; the work done until then is not undone. The queue records the job
among the archived jobs with the outcome cancelled, unless its archive setting is off. False: it is
finished or cancelled already, removed as expired, a dead letter, or never existed. The call may
wait for a transaction that has locked the job: of a worker that claims or finishes it.
Errors: 22004 a required argument is null, 40001 above READ COMMITTED when another transaction was
first (try again).';
