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
    now_at timestamptz;
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
    -- relies. After the clock was set back, a job may not be due any more: it must take no slot
    -- from those that are.
    now_at := pgq._clock();
    with gone as (delete from pgq.job as j where j.job_id = any(ids) returning j as job),

    unblocked as (
        insert into pgq.job
        select m.*
        from gone as g
        cross join lateral pgq._moved_job(
            g.job, greatest((g.job).due_at, now_at), null,
            case when (g.job).due_at <= now_at then limited_key end, null
        ) as m
        order by m.priority, (g.job).due_at, m.job_id
        returning job_id, ordered_key
    )

    select coalesce(array_agg(u.job_id) filter (where u.ordered_key is not null), '{}')
    into ids
    from unblocked as u;

    return ids;
end
$$;

comment on function pgq._unblock_jobs(bigint, text, text, integer) is
'Unblocks up to max_jobs blocked jobs of a key, the first ones first, and returns the ids of those
that are due: they take a slot.
blocked_from: no blocked job of the key has a lower sort key.';
