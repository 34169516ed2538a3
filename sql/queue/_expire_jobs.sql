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

    perform pgq._note_lost(expired_ids, 0, null);

    with expired as (delete from pgq.job as j where j.job_id = any(expired_ids) returning j.*)

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

    perform pgq._archive_jobs(gone, 'expired');
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
