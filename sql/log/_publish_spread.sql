create function pgq._publish_spread(
    topic text, payloads jsonb[], keys text[], headers jsonb[], partition integer, keyless integer,
    bodies bytea[]
)
returns setof pgq.offset_range
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
    state pgq._partition_state;
    key_partitions integer[];
    fallback integer;
    publish_time timestamptz;
    -- State of each partition, indexed by its number; offsets has one element per message.
    newest pgq._newest_message;
    first_offsets bigint[];
    next_offsets bigint[];
    ids bigint[];
    stored_ids bigint[];
    segments integer[];
    publish_times timestamptz[];
    offsets bigint[];
    key_partition integer;
    has_delivery boolean := false;
begin
    -- Unlocked read: the rows are locked and read again below.
    select p.topic_id, p.partitions, p.deferred
    into target
    from pgq.partition as p
    where p.topic = _publish_spread.topic
        and p.partition = 0 and (p.publishers is null or pgq._may(p.publishers));

    if target.topic_id is null then
        perform pgq._check_access(topic, null, 'publish');
        perform pgq._fail_unknown_topic(topic);
    end if;

    -- A bulk write (keyless is set) is appended directly, without staging.
    if target.deferred and keyless is null then
        return query
        select s.*
        from pgq._stage_batch(topic, payloads, keys, headers, partition, bodies) as s;
        return;
    end if;

    -- Deadlock: taking a free partition besides those of the keys would break the ascending lock
    -- order. Messages without a key go where the caller says, else to the partition of the first
    -- key; only a batch without keys takes a free partition.
    fallback := coalesce(
        partition, keyless,
        (
            select pgq._key_partition(k.key, target.partitions)
            from unnest(keys) as k (key)
            where k.key is not null
            limit 1
        )
    );
    if fallback is null or partition is not null then
        state := pgq._lock_partition(topic, fallback, null);
        fallback := state.partition;
    end if;

    key_partitions := array(
        select coalesce(partition, pgq._key_partition(k.key, target.partitions), fallback)
        from (
            select
                generate_series(1, coalesce(cardinality(payloads), cardinality(bodies))),
                unnest(keys) as key
        ) as k
    );

    if target.deferred then
        -- Lock order: lock all partitions first, since assigning offsets may lock more than
        -- partitions.
        perform
        from pgq.partition as p
        where p.topic_id = target.topic_id and p.partition = any(key_partitions)
        order by p.partition
        for no key update;
    end if;

    for state in
        select (pgq._state_of(p)).*
        from pgq.partition as p
        where p.topic_id = target.topic_id
            and p.partition = any(key_partitions)
            and (p.publishers is null or pgq._may(p.publishers))
        order by p.partition
        for no key update
    loop
        publish_time := pgq._clock();
        if state.segment_until <= publish_time then
            state := pgq._enter_segment(topic, state);
        end if;
        if state.deferred then
            perform pgq._assign(topic, state, null);
        end if;

        -- New statement: its snapshot is newer than the lock, so it shows the newest offset.
        newest := pgq._newest(state.stored_partition_id, state.segment, state.segment_first_offset);
        first_offsets[state.partition] := coalesce(
            newest.log_offset + 1, state.segment_first_offset
        );
        ids[state.partition] := state.partition_id;
        stored_ids[state.partition] := state.stored_partition_id;
        segments[state.partition] := state.segment;
        publish_times[state.partition] := greatest(
            publish_time, newest.published_at, state.segment_entered_at
        );
        has_delivery := has_delivery or state.has_delivery;
    end loop;

    next_offsets := first_offsets;

    -- A loop is faster than a window function, which has to sort the messages.
    foreach key_partition in array key_partitions loop
        offsets := offsets || next_offsets[key_partition];
        next_offsets[key_partition] := next_offsets[key_partition] + 1;
    end loop;

    if array_position(offsets, null) is not null then
        -- While this call waited, the topic was dropped (perhaps recreated) or access was revoked:
        -- retry.
        return query
        select s.*
        from pgq._publish_spread(topic, payloads, keys, headers, partition, keyless, bodies) as s;
        return;
    end if;

    perform pgq._measure(
        topic, has_delivery, segments, stored_ids, payloads, keys, headers, bodies
    );

    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    select
        stored_ids[b.key_partition],
        b.log_offset,
        publish_times[b.key_partition],
        segments[b.key_partition],
        b.key,
        b.header,
        b.payload,
        b.body
    from (
        select
            unnest(key_partitions) as key_partition, unnest(offsets) as log_offset,
            unnest(keys) as key, unnest(headers) as header,
            unnest(payloads) as payload, unnest(bodies) as body
    ) as b;

    return query
    select g.partition, first_offsets[g.partition], next_offsets[g.partition] - 1
    from generate_subscripts(first_offsets, 1) as g (partition)
    where first_offsets[g.partition] is not null
    order by g.partition;

    if has_delivery then
        perform pgq._deliver_across(
            target.topic_id, keys, headers, ids, stored_ids, segments, first_offsets, next_offsets
        );
    end if;
end
$$;

comment on function pgq._publish_spread(
    text, jsonb[], text[], jsonb[], integer, integer, bytea[]
) is
'Publishes messages to several partitions, which it locks in ascending order: a part of
publish_batch.
keyless: the partition of messages without a key; null: any of these partitions.';
