create function pgq._let_next(queue_id bigint, ordered_key text, after_id bigint)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    back_id bigint;
    next_id bigint;
    since timestamptz;
    expired boolean;
    sole boolean := false;
    cleaned boolean := false;
begin
    loop
        select k.from_id
        into back_id
        from pgq.ordered_key as k
        where k.queue_id = _let_next.queue_id and k.ordered_key = _let_next.ordered_key collate "C";
        -- The queue was dropped.
        if not found then
            return true;
        end if;

        -- Ids of a key are in commit order, so the lowest visible one is the next. A redriven job
        -- has a lower id than the one that has ended: from_id makes the search start there.
        select j.job_id, j.due_at, coalesce(j.expires_at <= pgq._clock(), false)
        into next_id, since, expired
        from pgq.job as j
        where j.queue_id = _let_next.queue_id
            and j.ordered_key = _let_next.ordered_key collate "C"
            and j.job_id + 0 > least(after_id, back_id - 1)
        order by j.job_id + 0
        limit 1;

        if not found then
            -- An old snapshot cannot prove that no job is left.
            if pgq._keeps_snapshot() then
                return false;
            end if;

            if sole then
                delete from pgq.ordered_key as k
                where k.queue_id = _let_next.queue_id
                    and k.ordered_key = _let_next.ordered_key collate "C";
                return true;
            end if;

            -- An enqueue of this key may have committed since: lock the key and look again. SKIP
            -- LOCKED: an uncommitted enqueue must not block us.
            perform
            from pgq.ordered_key as k
            where k.queue_id = _let_next.queue_id
                and k.ordered_key = _let_next.ordered_key collate "C"
            for update skip locked;
            if not found then
                return false;
            end if;
            sole := true;
            continue;
        end if;

        exit when not expired or cleaned or since is null;

        -- Expire a whole backlog at once: otherwise each cleanup would expire one job and unblock
        -- the next.
        perform
        from pgq._expire_jobs(
            array(
                select j.job_id
                from pgq.job as j
                where j.queue_id = _let_next.queue_id
                    and j.ordered_key = _let_next.ordered_key collate "C"
                    and j.job_id + 0 >= next_id
                    and j.due_at is not null
                order by j.job_id + 0
                limit 1000
            ),
            pgq._clock()
        );
        cleaned := true;
    end loop;

    -- Not blocked: claims find it already.
    if since is null then
        return true;
    end if;

    -- SKIP LOCKED: a transaction that cancels or moves the job may stay open for long, or roll
    -- back.
    perform
    from pgq.job as j
    where j.job_id = next_id and j.due_at is not null
    for update skip locked;
    if not found then
        return false;
    end if;

    -- Read the clock after the lock: this transaction has its xid by then, on which the floor
    -- relies.
    with gone as (delete from pgq.job as j where j.job_id = next_id returning j as job)

    insert into pgq.job
    select m.*
    from gone as g
    cross join lateral pgq._moved_job(
        g.job, greatest((g.job).due_at, pgq._clock()), null, (g.job).ordered_key, null
    ) as m;

    perform pgq._announce_jobs(array[next_id]);

    if back_id is not null then
        perform
        from pgq.ordered_key as k
        where k.queue_id = _let_next.queue_id
            and k.ordered_key = _let_next.ordered_key collate "C"
            and k.from_id = back_id
        for no key update skip locked;
        if found then
            update pgq.ordered_key as k
            set from_id = null
            where k.queue_id = _let_next.queue_id
                and k.ordered_key = _let_next.ordered_key collate "C";
        end if;
    end if;
    return true;
end
$$;

comment on function pgq._let_next(bigint, text, bigint) is
'Unblocks the next job of an ordered key whose first job has ended, or removes the key if no job is
left. after_id: the job that has ended. False: not decidable yet, the caller has to leave a wake-up
record.';
