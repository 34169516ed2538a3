create function pgq._join_order(queue_id bigint, ordered_keys text[])
returns text[]
language plpgsql volatile parallel unsafe
as $$
declare
    wish text collate "C";
    free text[] := '{}';
begin
    if exists (
        select
        from unnest(ordered_keys) as w (ordered_key)
        where length(w.ordered_key) > 255
    ) then
        raise exception 'argument "key" must have at most 255 characters'
            using errcode = '22023', detail = 'The queue is ordered.';
    end if;

    -- Lock in ascending order, one at a time: no deadlock. Waits for a transaction that enqueues a
    -- job of the key, or has just ended its last one. Above READ COMMITTED it raises 40001 where
    -- the snapshot does not show whether the key is taken.
    for wish in
        select distinct w.ordered_key collate "C" as ordered_key
        from unnest(ordered_keys) as w (ordered_key)
        where w.ordered_key is not null
        order by ordered_key
    loop
        loop
            perform
            from pgq.ordered_key as k
            where k.queue_id = _join_order.queue_id and k.ordered_key = wish
            for no key update;
            exit when found;

            insert into pgq.ordered_key (queue_id, ordered_key)
            values (queue_id, wish)
            on conflict do nothing;
            if found then
                free := free || wish;
                exit;
            end if;
        end loop;
    end loop;

    return free;
end
$$;

comment on function pgq._join_order(bigint, text[]) is
'Locks keys of an ordered queue until the transaction ends, and returns those that were free.
The caller must add a first job for each of these, or release the key. Job ids taken after this call
are in commit order within a key.';
