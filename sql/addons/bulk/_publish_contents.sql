create function pgq._publish_contents(
    topic text, lengths integer[], packed_payloads bytea, keys text[], headers jsonb[],
    partition integer, keyless integer, starts integer[], largest bigint, packed_bodies bytea
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    target pgq.partition;
    part record;
    state pgq._partition_state;
    newest pgq._newest_message;
    first_offset bigint;
    -- One element for each partition that gets messages.
    ids bigint[];
    stored_ids bigint[];
    segments integer[];
    first_offsets bigint[];
    next_offsets bigint[];
begin
    select p.*
    into target
    from pgq.partition as p
    where p.topic = _publish_contents.topic
        and p.partition = 0 and (p.publishers is null or pgq._may(p.publishers));

    if target.topic_id is null then
        perform pgq._check_access(topic, null, 'publish');
        perform pgq._fail_unknown_topic(topic);
    end if;

    -- In ascending order, against deadlocks: each partition is locked when its messages are stored.
    for part in
        select g.key_partition, g.ordinals
        from pgq._split_by_partition(
            keys, partition, target.partitions, keyless % target.partitions
        ) as g
    loop
        state := pgq._lock_partition(topic, part.key_partition, null);

        -- Read after the lock: only a new statement's snapshot is sure to show the newest offset.
        newest := pgq._newest(state.stored_partition_id, state.segment, state.segment_first_offset);
        first_offset := coalesce(newest.log_offset + 1, state.segment_first_offset);
        perform pgq._store_chunk(
            state.stored_partition_id, state.segment, first_offset,
            greatest(pgq._clock(), newest.published_at, state.segment_entered_at), part.ordinals,
            lengths, packed_payloads, keys, headers, starts, largest, packed_bodies
        );
        ids := ids || state.partition_id;
        stored_ids := stored_ids || state.stored_partition_id;
        segments := segments || state.segment;
        first_offsets := first_offsets || first_offset;
        next_offsets := next_offsets || first_offset + cardinality(
            coalesce(part.ordinals, lengths)
        );
    end loop;

    if state.has_delivery and cardinality(lengths) > 0 then
        perform pgq._deliver_across(
            target.topic_id, keys, headers, ids, stored_ids, segments, first_offsets, next_offsets
        );
    end if;
end
$$;

comment on function pgq._publish_contents(
    text, integer[], bytea, text[], jsonb[], integer, integer, integer[], bigint, bytea
) is
'Publishes the messages of a chunk that _check_contents has checked. keyless: if the chunk has keys,
messages without one go to this partition, modulo the number of partitions.';
