create function pgq._lock_group(
    topic text, consumer_group text, partition integer, available_only boolean
)
returns pgq._group_state
language plpgsql volatile parallel unsafe
as $$
declare
    held pgq.group_partition;
    target pgq.partition;
    state pgq._group_state;
    is_deferred boolean;
    assigned boolean := false;
    permitted boolean;
begin
    loop
        if partition is not null then
            select l.*
            into held
            from pgq.group_partition as l
            where l.topic = _lock_group.topic
                and l.consumer_group = _lock_group.consumer_group
                and l.partition = _lock_group.partition
                and permitted is not false
            for no key update;
        else
            if not available_only then
                perform pgq._fail_unknown_partition(topic, null, null);
            end if;
            -- Fairness: of the free partitions with messages, take the one that was read longest
            -- ago.
            select l.*
            into held
            from pgq.group_partition as l
            inner join pgq.partition as p on p.partition_id = l.partition_id
            cross join lateral pgq._current_position(l.group_id, l.partition) as q
            where l.topic = _lock_group.topic
                and l.consumer_group = _lock_group.consumer_group
                and (p.consumers is null or pgq._may(p.consumers))
                and (q.leased_until is null or q.leased_until <= pgq._clock())
                and (
                    q.next_offset < p.segment_first_offset
                    or (pgq._newest(p.stored_partition_id, p.segment, q.next_offset)).log_offset
                    is not null
                )
            -- A recorded_at in the future (the clock was set back) sorts first.
            order by nullif(q.recorded_at, greatest(q.recorded_at, pgq._clock())) nulls first
            limit 1
            for no key update of l skip locked;
        end if;

        if held.group_id is null then
            is_deferred := pgq._check_group(topic, consumer_group, partition);
            permitted := null;
            -- The named partition exists, so it was dropped and recreated while this call waited:
            -- retry.
            continue when partition is not null;

            -- Only once, or this could loop: a lease may still keep this member from the new
            -- messages.
            if is_deferred and not assigned then
                assigned := pgq._assign_waiting(topic, null) > 0;
                continue when assigned;
            end if;

            -- To an old snapshot a truncated segment looks empty; _last_offset then raises 40001.
            if pgq._keeps_snapshot() then
                perform pgq._last_offset(p.stored_partition_id, p.segment, p.segment_first_offset)
                from pgq.group_partition as l
                inner join pgq.partition as p on p.partition_id = l.partition_id
                where l.topic = _lock_group.topic and l.consumer_group = _lock_group.consumer_group;
            end if;
            return null;
        end if;

        -- New statements: their snapshots are newer than the lock.
        select p.* into target from pgq.partition as p where p.partition_id = held.partition_id;

        if target.consumers is not null and not pgq._may(target.consumers) then
            -- Treat a forbidden topic as unknown, so that names do not leak.
            permitted := false;
            continue;
        end if;

        select
            held.group_id,
            held.partition,
            held.partition_id,
            target.segment,
            target.segment_first_offset,
            held.out_of_range,
            j.seq,
            j.next_offset,
            j.leased_until,
            j.lease_token,
            j.lease_last_offset,
            pgq._last_offset(
                target.stored_partition_id, target.segment, target.segment_first_offset
            ),
            held.max_attempts,
            null::integer,
            null::text,
            null::bigint,
            null::bigint,
            target.stored_partition_id
        into state
        from pgq._current_position(held.group_id, held.partition) as j;

        if state.max_attempts is not null then
            select (j.attempts).*
            into state.attempt, state.last_error, state.tried_offset, state.single_offset
            from pgq._current_position(state.group_id, state.partition) as j;
        end if;

        -- Starvation: also assign offsets in the partition at this session's hash position, and not
        -- only once the other partitions have nothing to read.
        if target.deferred and partition is null and not assigned then
            assigned := true;
            perform pgq._assign_waiting(topic, f.partition)
            from (
                select p.partition
                from pgq.partition as p
                where p.topic = _lock_group.topic and p.hash_position <= pgq._hash_position()
                order by p.hash_position desc
                limit 1
            ) as f
            where f.partition <> state.partition;
        end if;

        if not available_only
            or (state.last_offset >= state.next_offset
                and (state.leased_until is null or state.leased_until <= pgq._clock()))
        then
            return state;
        end if;

        -- Nothing to read in the named partition. If any will do, another member was faster: look
        -- again.
        if partition is not null then
            if target.deferred and not assigned and state.last_offset < state.next_offset then
                assigned := pgq._assign_waiting(topic, partition) > 0;
                continue when assigned;
            end if;
            return null;
        end if;
    end loop;
end
$$;

comment on function pgq._lock_group(text, text, integer, boolean) is
'Locks the position of a group in the named partition, or in one that has messages for it, and
returns its state. With available_only it returns null when there is nothing to read, or another
member holds the partition.
In a deferred topic it assigns offsets when there is nothing to read: in the partition at hand, or
in all partitions. Raises MQ001, MQ003, MQ007.';
