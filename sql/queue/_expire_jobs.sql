create function pgq._expire_jobs(job_ids bigint[], now_at timestamptz)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    expired_ids bigint[];
    ended pgq._ended_job[];
    gone pgq.job[];
begin
    expired_ids := array(
        select j.job_id
        from pgq.job as j
        where j.job_id = any(job_ids)
            and j.expires_at <= now_at
            and (j.lease_token is null or j.visible_at <= now_at)
        for update skip locked
    );

    perform pgq._note_lost(expired_ids);
    perform pgq._lock_leaf(j.segment) from pgq.job as j where j.job_id = any(expired_ids);

    with expired as (delete from pgq.job as j where j.job_id = any(expired_ids) returning j.*),

    archived as (
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
            now_at,
            e.segment,
            e.attempt,
            'expired',
            e.label,
            e.last_error,
            nullif(e.partition_id, q.partition_id),
            case when q.partition_id <> e.partition_id then e.log_offset end
        from expired as e
        inner join pgq.queue as q on q.queue_id = e.queue_id
        where q.archive
    )

    select
        array_agg(
            row(
                e.job_id, e.queue_id, e.unique_key,
                case when e.due_at is null then e.ordered_key end
            )::pgq._ended_job
        ),
        array_agg(row(e.*)::pgq.job)
    into ended, gone
    from expired as e;

    perform pgq._note_end(gone, 'expired', null);

    perform pgq._free_keys(ended);

    return query
    select 'jobs expired', q.queue::text, count(*)
    from unnest(ended) as e
    inner join pgq.queue as q on q.queue_id = e.queue_id
    group by q.queue;
end
$$;

comment on function pgq._expire_jobs(bigint[], timestamptz) is
'Removes those of these jobs that are past the job_ttl of their queue and not leased.';
