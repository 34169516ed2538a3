create function pgq._stage_batch(
    topic text, payloads jsonb[], keys text[], headers jsonb[], partition integer, bodies bytea[]
)
returns setof pgq.offset_range
language plpgsql volatile parallel unsafe
as $$
declare
    size integer := coalesce(cardinality(payloads), cardinality(bodies));
    -- Take the xid before reading the segments: _close_segments relies on this order.
    xid bigint := pg_current_xact_id()::text::bigint;
    first_number bigint := nextval('pgq.staged_number') << 20;
    start_at integer := pgq._hash_position();
    looked boolean := false;
    target record;
    chosen record;
    fallback integer;
    key_partitions integer[];
    ids bigint[];
    segments integer[];
    has_delivery boolean;
    publish_time timestamptz := pgq._clock();
begin
    if size > 1048576 then
        raise exception 'argument "%" must have at most 1048576 elements for a deferred topic',
            case when payloads is not null then 'payloads' else 'bodies' end
            using errcode = '22023';
    end if;

    select p.topic_id, p.partitions
    into target
    from pgq.partition as p
    where p.topic = _stage_batch.topic
        and p.partition = 0 and (p.publishers is null or pgq._may(p.publishers));

    if target.topic_id is null then
        perform pgq._check_access(topic, null, 'publish');
        perform pgq._fail_unknown_topic(topic);
    end if;

    if pgq._keeps_snapshot() then
        -- An old snapshot may show segments that are gone: then the locks raise 40001. The
        -- subtransaction releases them, since staging messages must not block other transactions.
        begin
            perform
            from pgq.partition as p
            where p.topic_id = target.topic_id
            order by p.partition
            for share;
            looked := true;
            raise exception 'these locks are not needed any more' using errcode = '55P03';
        exception
            when lock_not_available then
                if not looked then
                    raise;
                end if;
        end;
    end if;

    -- As in _publish_spread, messages without a key go to the partition of the first key, if any.
    fallback := coalesce(
        partition,
        (
            select pgq._key_partition(k.key, target.partitions)
            from unnest(keys) as k (key)
            where k.key is not null
            limit 1
        ),
        (
            select p.partition
            from pgq.partition as p
            where p.topic_id = target.topic_id and p.hash_position <= start_at
            order by p.hash_position desc
            limit 1
        )
    );

    key_partitions := array(
        select coalesce(partition, pgq._key_partition(k.key, target.partitions), fallback)
        from (select generate_series(1, size), unnest(keys) as key) as k
    );

    for chosen in
        select p.partition, p.partition_id, p.segment, p.has_delivery
        from pgq.partition as p
        where p.topic_id = target.topic_id and p.partition = any(key_partitions)
    loop
        ids[chosen.partition] := chosen.partition_id;
        segments[chosen.partition] := chosen.segment;
        perform pgq._lock_leaf(chosen.segment);
        has_delivery := chosen.has_delivery;
    end loop;

    if exists (
        select from unnest(key_partitions) as h (key_partition) where ids[h.key_partition] is null
    ) then
        -- The topic was dropped, and perhaps recreated, since it was read.
        perform pgq._fail_unknown_topic(topic);
    end if;

    perform pgq._measure(topic, has_delivery, segments, ids, payloads, keys, headers, bodies);

    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    select
        pgq._staged_id(ids[b.key_partition], xid),
        first_number + b.ordinal,
        publish_time,
        segments[b.key_partition],
        b.key,
        b.header,
        b.payload,
        b.body
    from (
        select
            generate_series(0, size - 1) as ordinal, unnest(key_partitions) as key_partition,
            unnest(keys) as key, unnest(headers) as header,
            unnest(payloads) as payload, unnest(bodies) as body
    ) as b;

    if has_delivery then
        perform pgq._announce(ids[key_partitions[1]]);
    end if;

    return query
    select g.partition, null::bigint, null::bigint
    from generate_subscripts(ids, 1) as g (partition)
    where ids[g.partition] is not null
    order by g.partition;
end
$$;

comment on function pgq._stage_batch(text, jsonb[], text[], jsonb[], integer, bytea[]) is
'Stages messages in a deferred topic, which get their offsets later: a part of publish_batch.
Until then, log_offset is the number of the call times 2^20, plus the ordinal in the batch: see
_staged_since.';
