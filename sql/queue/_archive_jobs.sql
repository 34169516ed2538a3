create function pgq._archive_jobs(ended pgq.job[], outcome text)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    perform pgq._lock_leaf(e.segment) from unnest(ended) as e;

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
        e.job_id,
        e.queue_id,
        pgq._clock(),
        e.segment,
        e.attempt,
        outcome,
        e.label,
        e.last_error,
        nullif(e.partition_id, q.partition_id),
        case when e.partition_id <> q.partition_id then e.log_offset end
    from unnest(ended) as e
    inner join pgq.queue as q on q.queue_id = e.queue_id
    where q.archive;
end
$$;

comment on function pgq._archive_jobs(pgq.job[], text) is
'Records jobs that were ended by another than their worker, in queues with archive. The caller has
removed their rows.';
