create function pgq._publish_keyed(
    topic text, payloads jsonb[], keys text[], headers jsonb[], partition integer,
    idempotency_keys text[], bodies bytea[]
)
returns setof pgq.publish_result
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    scope bigint;
    span interval;
    most_bytes integer;
    partition_count integer;
    looked boolean := false;
    fallback integer;
    notes pgq._key_notes;
    leaders integer[];
    part record;
    stored pgq.publish_batch_result;
    -- Partition and offset of each message, by its ordinal.
    key_partitions integer[];
    offsets bigint[];
    ordinal integer;
begin
    perform pgq._check_access(topic, null, 'publish');

    -- Take the xid before reading the window: _note_keys relies on this order.
    if pg_current_xact_id() is null then
        return;
    end if;

    if pgq._keeps_snapshot() then
        -- An old snapshot may show a former window: then the lock raises 40001. The subtransaction
        -- releases it, so that alter_topic does not wait for publishers.
        begin
            perform from pgq.topic as t where t.topic = _publish_keyed.topic for share;
            looked := true;
            raise exception 'this lock is not needed any more' using errcode = '55P03';
        exception
            when lock_not_available then
                if not looked then
                    raise;
                end if;
        end;
    end if;

    -- Retry if the topic was dropped and recreated while this call waited.
    loop
        select p.partition_id, p.partitions, t.idempotency_window, t.max_message_bytes
        into scope, partition_count, span, most_bytes
        from pgq.partition as p
        inner join pgq.topic as t on t.topic_id = p.topic_id
        where p.topic = _publish_keyed.topic and p.partition = 0;

        if scope is null then
            perform pgq._fail_unknown_topic(topic);
        end if;

        notes := pgq._note_keys(scope, span, idempotency_keys);

        exit when exists (select from pgq.partition as p where p.partition_id = scope);
    end loop;

    leaders := notes.leaders;
    if most_bytes < 12288 or pgq._has_large(payloads, keys, headers, bodies) then
        perform pgq._check_size(
            topic, null,
            array(select n = leaders[n] from generate_series(1, cardinality(leaders)) as n),
            payloads, keys, headers, bodies
        );
    end if;

    -- As in _publish_spread, messages without a key go to the partition of the first key, if any.
    select pgq._key_partition(k.key, partition_count)
    into fallback
    from unnest(keys) as k (key)
    where k.key is not null
    limit 1;

    -- Publish one partition at a time, in ascending order (lock order), so that the offset of each
    -- message is known.
    for part in
        select
            b.key_partition, array_agg(b.ordinal order by b.ordinal) as ordinals,
            array_agg(b.payload order by b.ordinal) as payloads,
            array_agg(b.key order by b.ordinal) as keys,
            array_agg(b.header order by b.ordinal) as headers,
            array_agg(b.body order by b.ordinal) as bodies
        from (
            select
                g.*,
                coalesce(
                    partition, pgq._key_partition(g.key, partition_count), fallback
                )::integer as key_partition
            from (
                select
                    generate_series(1, cardinality(leaders)) as ordinal, unnest(leaders) as leader,
                    unnest(payloads) as payload, unnest(keys) as key,
                    unnest(headers) as header, unnest(bodies) as body
            ) as g
            where g.leader = g.ordinal
        ) as b
        group by b.key_partition
        order by b.key_partition
    loop
        select r.*
        into stored
        from pgq.publish_batch(
            topic => topic, payloads => case when bodies is null then part.payloads end,
            keys => case when part.key_partition is not null then part.keys end,
            headers => part.headers, partition => part.key_partition,
            bodies => case when bodies is not null then part.bodies end
        ) as r;

        foreach ordinal in array part.ordinals loop
            key_partitions[ordinal] := stored.partition;
            offsets[ordinal] := stored.first_offset;
            stored.first_offset := stored.first_offset + 1;
        end loop;
    end loop;

    for n in 1 .. cardinality(leaders) loop
        if leaders[n] < 0 then
            key_partitions[n] := notes.partitions[-leaders[n]];
            offsets[n] := notes.log_offsets[-leaders[n]];
        elsif leaders[n] < n then
            key_partitions[n] := key_partitions[leaders[n]];
            offsets[n] := offsets[leaders[n]];
        end if;
    end loop;

    if stored.partition is not null then
        perform pgq._store_keys(
            notes.segments, scope, span, array_agg(g.idempotency_key), null, array_agg(g.partition),
            array_agg(g.log_offset)
        )
        from (
            select
                generate_series(1, cardinality(leaders)) as ordinal, unnest(leaders) as leader,
                unnest(idempotency_keys) as idempotency_key,
                unnest(key_partitions) as partition, unnest(offsets) as log_offset
        ) as g
        where g.leader = g.ordinal and g.idempotency_key is not null;

        if not exists (select from pgq.partition as p where p.partition_id = scope) then
            raise exception 'topic "%" was dropped while this call was at work',
                topic using errcode = 'MQ001';
        end if;
    end if;

    return query
    select g.partition, g.log_offset, g.leader <> g.ordinal
    from (
        select
            generate_series(1, cardinality(leaders)) as ordinal, unnest(leaders) as leader,
            unnest(key_partitions) as partition, unnest(offsets) as log_offset
    ) as g;
end
$$;

comment on function pgq._publish_keyed(text, jsonb[], text[], jsonb[], integer, text[], bytea[]) is
'Publishes the messages whose idempotency keys are new, and returns partition and offset of all
messages in the order of the array: a part of publish and publish_batch.';
