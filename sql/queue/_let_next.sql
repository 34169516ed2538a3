create function pgq._let_next(queue_id bigint, ordered_key text, after_id bigint)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    back_id bigint;
    number bigint;
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

        -- The ids of a key are in the order of its commits: what is seen first is the first. What a
        -- redrive has put back in front is looked for from its id on.
        select j.job_id, j.due_at, coalesce(j.expires_at <= pgq._clock(), false)
        into number, since, expired
        from pgq.job as j
        where j.queue_id = _let_next.queue_id
            and j.ordered_key = _let_next.ordered_key collate "C"
            and j.job_id + 0 > least(_let_next.after_id, back_id - 1)
        order by j.job_id + 0
        limit 1;

        if not found then
            -- An older snapshot cannot tell.
            if pgq._keeps_snapshot() then
                return false;
            end if;

            if sole then
                delete from pgq.ordered_key as k
                where k.queue_id = _let_next.queue_id
                    and k.ordered_key = _let_next.ordered_key collate "C";
                return true;
            end if;

            -- Somebody may be enqueuing the next, and have committed since. If not yet, nobody
            -- waits for him here.
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

        -- Not one after the other, each by a cleanup.
        perform
        from pgq._expire_jobs(
            array(
                select j.job_id
                from pgq.job as j
                where j.queue_id = _let_next.queue_id
                    and j.ordered_key = _let_next.ordered_key collate "C"
                    and j.job_id + 0 >= number
                    and j.due_at is not null
                order by j.job_id + 0
                limit 1000
            ),
            pgq._clock()
        );
        cleaned := true;
    end loop;

    -- It is where claims look already.
    if since is null then
        return true;
    end if;

    -- Whoever cancels or moves it has the row: that may take long, or be rolled back.
    perform
    from pgq.job as j
    where j.job_id = number and j.due_at is not null
    for update skip locked;
    if not found then
        return false;
    end if;

    -- The clock is read behind the lock: by then this transaction has its id, on which the floor
    -- relies.
    with gone as (delete from pgq.job as j where j.job_id = number returning j as job)

    insert into pgq.job
    select m.*
    from gone as g
    cross join lateral pgq._moved_job(
        g.job, greatest((g.job).due_at, pgq._clock()), null, (g.job).ordered_key, null
    ) as m;

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
'Brings up the next job of an ordered key, whose first one has ended, to where claims look, or lets
the key go when there is none. after_id: the one that has ended. False: that cannot be told yet, and
has to be noted.';
