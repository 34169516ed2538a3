create function pgq._open_segment(storage_class_id bigint)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    free_leaf integer;
begin
    loop
        -- SKIP LOCKED: another transaction is taking that leaf. Above READ COMMITTED, a leaf taken
        -- since the snapshot raises 40001.
        select l.leaf
        into free_leaf
        from pgq.leaf as l
        where l.free
            -- After a restore every leaf counts as free.
            and not exists (select from pgq.segment as s where s.segment = l.leaf)
        order by l.leaf
        limit 1
        for update skip locked;

        exit when free_leaf is not null;

        -- No leaf is free: add one. Above READ COMMITTED, a concurrent insert of the same leaf
        -- raises 40001.
        insert into pgq.leaf (leaf, free)
        select min(n.leaf), true
        from generate_series(
            0, (select count(*) from pgq.leaf) + (select count(*) from pgq.segment)
        ) as n (leaf)
        where not exists (select from pgq.leaf as l where l.leaf = n.leaf)
            and not exists (select from pgq.segment as s where s.segment = n.leaf)
        on conflict do nothing
        returning leaf
        into free_leaf;

        if free_leaf is not null then
            if to_regclass('pgq.message_' || free_leaf) is null then
                perform pgq._create_leaf(free_leaf);
            end if;
            exit;
        end if;
    end loop;

    update pgq.leaf as l set free = false where l.leaf = free_leaf;

    perform pgq._mark_segment(free_leaf);
    insert into pgq.segment (segment, storage_class_id, state, opened_at)
    values (free_leaf, storage_class_id, 'open', pgq._clock());

    update pgq.storage_class as c
    set segment = free_leaf
    where c.storage_class_id = _open_segment.storage_class_id;

    return free_leaf;
end
$$;

comment on function pgq._open_segment(bigint) is
'Takes a free leaf, or creates one, as the open segment of a storage class, and returns its number.
The caller holds the lock on the row of the class.';
