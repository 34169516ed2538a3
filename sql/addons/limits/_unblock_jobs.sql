create function pgq._unblock_jobs(
    queue_id bigint, limited_key text, blocked_from text, max_jobs integer
)
returns bigint[]
language plpgsql volatile parallel unsafe
as $$
declare
    size integer := length(blocked_from);
    beyond text := limited_key || chr(2);
    ids bigint[];
begin
    for turn in 1 .. 2 loop
        -- SKIP LOCKED: a transaction that cancels or moves a job may stay open for long, or roll
        -- back. The length excludes jobs of a longer key that begins with this one.
        ids := array(
            select j.job_id
            from pgq.job as j
            where j.queue_id = _unblock_jobs.queue_id
                and j.ordered_key >= blocked_from collate "C"
                and j.ordered_key < beyond collate "C"
                and j.due_at is not null
                and length(j.ordered_key) = size
            order by j.ordered_key, j.job_id + 0
            limit max_jobs
            for update skip locked
        );

        exit when turn = 2
            or not exists (
                select
                from pgq.job as j
                where j.job_id = any(ids) and j.expires_at <= pgq._clock()
            );

        -- Expire a whole backlog at once: otherwise each claim would expire only a few.
        perform
        from pgq._expire_jobs(
            array(
                select j.job_id
                from pgq.job as j
                where j.queue_id = _unblock_jobs.queue_id
                    and j.ordered_key >= blocked_from collate "C"
                    and j.ordered_key < beyond collate "C"
                    and j.due_at is not null
                    and length(j.ordered_key) = size
                order by j.ordered_key, j.job_id + 0
                limit 1000 + max_jobs
            ),
            pgq._clock()
        );
    end loop;

    -- Read the clock after the locks: this transaction has its xid by then, on which the floor
    -- relies.
    with gone as (delete from pgq.job as j where j.job_id = any(ids) returning j as job)

    insert into pgq.job
    select m.*
    from gone as g
    cross join lateral pgq._moved_job(
        g.job, greatest((g.job).due_at, pgq._clock()), null, limited_key, null
    ) as m
    order by m.priority, (g.job).due_at, m.job_id;

    return ids;
end
$$;

comment on function pgq._unblock_jobs(bigint, text, text, integer) is
'Unblocks up to max_jobs blocked jobs of a key, the first ones first, and returns their ids.
blocked_from: no blocked job of the key has a lower sort key.';
