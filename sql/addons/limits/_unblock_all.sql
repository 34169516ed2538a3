create function pgq._unblock_all(queue_id bigint, max_jobs integer)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    unblocked integer;
begin
    -- SKIP LOCKED: a job that is just being cancelled is left to cleanup, in case that is rolled
    -- back. Transaction id before the clock: the floor relies on it.
    with gone as (
        delete from pgq.job as j
        where j.job_id = any(array(
            select k.job_id
            from generate_series(0, 9) as p (priority)
            cross join lateral (
                select i.job_id
                from pgq.job as i
                where i.queue_id = _unblock_all.queue_id
                    and i.priority = p.priority
                    and i.visible_at = 'infinity'
                    and i.due_at is not null
                for update skip locked
            ) as k
            limit max_jobs
        ))
        returning j as job
    )

    insert into pgq.job
    select m.*
    from gone as g
    cross join lateral pgq._moved_job(
        g.job, greatest((g.job).due_at, pgq._clock()), null, null, null
    ) as m
    order by m.priority, (g.job).due_at, m.job_id;
    get diagnostics unblocked = row_count;

    return unblocked;
end
$$;

comment on function pgq._unblock_all(bigint, integer) is
'Unblocks up to max_jobs (null: all) blocked jobs of a queue that has no max_leased_per_key, and
returns how many.';
