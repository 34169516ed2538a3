create function pgq._assign_all(topic text, partition integer, max_messages bigint)
returns setof pgq.offset_range
language plpgsql volatile parallel unsafe
set plan_cache_mode = force_generic_plan
set enable_bitmapscan = off
as $$
declare
    target record;
    state pgq._partition_state;
    assigned pgq.offset_range;
begin
    -- Lock only partitions with staged messages. SKIP LOCKED: leave a partition to the transaction
    -- that holds it.
    for target in
        select p.partition_id
        from pgq.partition as p
        cross join lateral pgq._staged_since(p.partition_id) as s
        where p.topic = _assign_all.topic
            and p.deferred
            and p.partition = coalesce(_assign_all.partition, p.partition)
            and exists (
                select
                from unnest(p.left_segments || p.segment) as l (segment)
                where pgq._has_staged(p.partition_id, l.segment, s)
            )
        order by p.partition
    loop
        select (pgq._state_of(p)).*
        into state
        from pgq.partition as p
        where p.partition_id = target.partition_id
        for no key update skip locked;
        continue when not found;

        if state.segment_until <= pgq._clock() then
            state := pgq._enter_segment(topic, state);
        end if;

        assigned := pgq._assign(topic, state, max_messages);
        if assigned.partition is not null then
            return next assigned;
        end if;
    end loop;
end
$$;

comment on function pgq._assign_all(text, integer, bigint) is
'Assigns offsets to the committed staged messages of a partition of a deferred topic, or of all if
it is null: at most max_messages in each. Returns the offsets; skips partitions that another
transaction has locked.';
