create function pgq._lock_dead_letters(
    queue_id bigint, job_ids bigint[], max_jobs integer, filter pgq._job_filter
)
returns bigint[]
language plpgsql volatile parallel unsafe
as $$
begin
    -- Lock in ascending order of ids: no deadlock. With max_jobs the oldest are found in another
    -- order, so SKIP LOCKED: never wait for a letter that is locked.
    return case
        when job_ids is not null then array(
            select d.job_id
            from pgq.dead_job as d
            -- queue_id + 0 matches no index: no plan can scan all letters of the queue. A letter
            -- may have been redriven and died of another error since it was found.
            where d.job_id = any(job_ids)
                and d.queue_id + 0 = _lock_dead_letters.queue_id
                and pgq._filter_matches(filter, d.label, d.last_error, d.ordered_key, d.died_at)
            order by d.job_id
            for update
        )
        when max_jobs is not null then array(
            select d.job_id
            from pgq.dead_job as d
            where d.queue_id = _lock_dead_letters.queue_id
                and (
                    d.unique_key is null
                    or not exists (
                        select
                        from pgq.unique_job as u
                        where u.queue_id = d.queue_id
                            and u.unique_key = d.unique_key
                            and u.job_id <> d.job_id
                    )
                )
            order by d.died_at, d.job_id
            limit max_jobs
            for update skip locked
        )
        else array(
            select d.job_id
            from pgq.dead_job as d
            where d.queue_id = _lock_dead_letters.queue_id
            order by d.job_id
            for update
        )
    end;
end
$$;

comment on function pgq._lock_dead_letters(bigint, bigint[], integer, pgq._job_filter) is
'Locks the dead letters that a redrive moves and returns their ids: the named ones that match
the filter, up to max_jobs of the oldest whose unique keys are free, or all of the queue.';
