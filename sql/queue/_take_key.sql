create function pgq._take_key(queue_id bigint, unique_key text, job_id bigint, waiting boolean)
returns bigint
language plpgsql volatile parallel unsafe
as $$
declare
    holder_id bigint;
    several boolean;
    expired boolean;
begin
    loop
        -- It waits for whoever is taking the key, or giving it back. Above READ COMMITTED it raises
        -- 40001 where the snapshot does not show who has it.
        insert into pgq.unique_job (queue_id, unique_key, job_id)
        values (_take_key.queue_id, _take_key.unique_key, _take_key.job_id)
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
        -- It was given back in between.
        continue when not found;

        if several then
            -- Above READ COMMITTED this transaction may see who has given the key back since, and a
            -- job of its own; the lock then raises 40001.
            perform
            from pgq.unique_job as u
            where u.queue_id = _take_key.queue_id
                and u.unique_key = _take_key.unique_key collate "C"
            for key share;
        end if;

        -- A job that is given back may have kept its key.
        exit when holder_id = job_id;

        -- It keeps nobody out, though cleanup has not found it yet. In two steps, so that whoever
        -- has it locked is not waited for.
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

        exit when not _take_key.waiting
            or (
                select q.unique_until
                from pgq.queue as q
                where q.queue_id = _take_key.queue_id
            ) is distinct from 'claimed';

        -- Claims pass over what is locked. So whoever works on the job begins when this transaction
        -- has ended, and sees what it did.
        perform
        from pgq.job as j
        where j.job_id = holder_id and j.lease_token is null
        for key share;
        exit when found;

        -- It was claimed, or replaced by a new row, while this waited; or else it keeps the key
        -- from when the queue said otherwise. Both in one statement: one snapshot.
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
'Gives a job a unique key of its queue and returns its id, or that of the job that has the key; one
that has expired gives it away. waiting: that one is to wait until this transaction has ended, where
claims give keys back.';
