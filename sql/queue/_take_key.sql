create function pgq._take_key(queue_id bigint, unique_key text, job_id bigint, waiting boolean)
returns bigint
language plpgsql volatile parallel unsafe
as $$
declare
    holder_id bigint;
    several boolean;
    expired boolean;
    replaces boolean;
begin
    loop
        -- Waits for a transaction that is taking or freeing the key. Above READ COMMITTED it raises
        -- 40001 where the snapshot does not show the holder.
        insert into pgq.unique_job (queue_id, unique_key, job_id, is_newest)
        values (queue_id, unique_key, job_id, waiting)
        on conflict do nothing;
        if found then
            return job_id;
        end if;

        select
            u.job_id, count(*) over () > 1,
            (
                select
                    j.expires_at <= pgq._clock()
                    and (j.lease_token is null or j.visible_at <= pgq._clock())
                from pgq.job as j
                where j.job_id = u.job_id
            )
        into holder_id, several, expired
        from pgq.unique_job as u
        where u.queue_id = _take_key.queue_id and u.unique_key = _take_key.unique_key collate "C";
        -- The key was freed in between.
        continue when not found;

        if several then
            -- Above READ COMMITTED two rows may be visible: one that was deleted since the
            -- snapshot, and this transaction's own. The lock then raises 40001.
            perform
            from pgq.unique_job as u
            where u.queue_id = _take_key.queue_id
                and u.unique_key = _take_key.unique_key collate "C"
            for key share;
        end if;

        -- A job that is given back may still have its key.
        exit when holder_id = job_id;

        -- An expired holder does not count, even before cleanup removes it. Lock first, with SKIP
        -- LOCKED: a transaction that holds the row must not block us.
        if expired then
            perform
            from pgq.job as j
            where j.job_id = holder_id and (j.lease_token is null or j.visible_at <= pgq._clock())
            for update skip locked;
            if found then
                update pgq.job as j set unique_key = null where j.job_id = holder_id;
                delete from pgq.unique_job as u where u.job_id = holder_id;
                continue;
            end if;
        end if;

        exit when not waiting;
        select q.on_duplicate <> 'keep'
        into replaces
        from pgq.queue as q
        where q.queue_id = _take_key.queue_id and q.unique_until = 'claimed';
        exit when not found;

        -- Lock the waiting holder: claims skip it until this transaction ends, so its worker will
        -- see what this transaction wrote. Where it will replace the content, other enqueues of the
        -- key wait for it too.
        if replaces then
            perform
            from pgq.job as j
            where j.job_id = holder_id and j.lease_token is null
            for update;
        else
            perform
            from pgq.job as j
            where j.job_id = holder_id and j.lease_token is null
            for key share;
        end if;
        exit when found;

        -- The holder was claimed or replaced by a new row while this waited: try again. Or it keeps
        -- the key from before unique_until was changed: exit. Both in one statement, with one
        -- snapshot.
        exit when exists (
            select
            from pgq.unique_job as u
            where u.job_id = holder_id
                and not exists (
                    select
                    from pgq.job as j
                    where j.job_id = holder_id and j.lease_token is null
                )
        );
    end loop;

    return holder_id;
end
$$;

comment on function pgq._take_key(bigint, text, bigint, boolean) is
'Gives a job a unique key of its queue and returns its id, or the id of the job that holds the key.
An expired holder loses the key. waiting: this is an enqueue; if unique_until is claimed, lock a
holder that is not leased, so that it cannot be claimed before this transaction ends.';
