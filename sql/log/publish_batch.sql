create function pgq.publish_batch(
    topic text,
    payloads jsonb[] default null,
    keys text[] default null,
    headers jsonb[] default null,
    partition integer default null,
    idempotency_keys text[] default null,
    bodies bytea[] default null
)
returns setof pgq.publish_batch_result
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    size integer;
    state pgq._partition_state;
    published pgq.publish_batch_result;
    newest pgq._newest_message;
    publish_time timestamptz;
begin
    size := pgq._check_batch(payloads, keys collate "C", headers, null, bodies);

    if size = 0 or idempotency_keys is not null then
        perform pgq._check_idempotency_keys('idempotency_keys', idempotency_keys collate "C", size);
        if size = 0 then
            perform pgq._check_topic(topic collate "C");
            return;
        end if;

        -- Offsets of duplicates may have gaps: return one row per consecutive range.
        return query
        select r.partition, min(r.log_offset), max(r.log_offset), r.duplicate
        from (
            select
                d.*,
                d.log_offset - row_number() over (
                    partition by d.partition, d.duplicate order by d.log_offset
                ) as piece
            from (
                select distinct k.partition, k.log_offset, k.duplicate
                from pgq._publish_keyed(
                    topic collate "C", payloads, keys, headers, partition, idempotency_keys, bodies
                ) as k
            ) as d
        ) as r
        group by r.partition, r.duplicate, r.piece
        order by r.partition, min(r.log_offset), r.duplicate;
        return;
    end if;

    if pgq._keeps_snapshot() then
        -- An old snapshot may not show the newest message; the unique index then rejects the
        -- offset.
        begin
            return query
            select s.*, false
            from pgq._publish_spread(
                topic collate "C", payloads, keys, headers, partition, null, bodies
            ) as s;
        exception
            when unique_violation then
                raise exception
                    'another transaction has published to topic "%" since this one began',
                    topic
                    using errcode = '40001',
                        hint = 'Try the transaction again, or use READ COMMITTED.';
        end;
        return;
    end if;

    if keys is not null and partition is null then
        return query
        select s.*, false
        from pgq._publish_spread(
            topic collate "C", payloads, keys, headers, null, null, bodies
        ) as s;
        return;
    end if;

    state := pgq._lock_partition(topic collate "C", partition, null, true);
    if state.partition is null then
        return query
        select s.*, false
        from pgq._stage_batch(topic collate "C", payloads, keys, headers, partition, bodies) as s;
        return;
    end if;

    -- New statement: its snapshot is newer than the lock, so it shows the newest offset.
    newest := pgq._newest(state.stored_partition_id, state.segment, state.segment_first_offset);
    if state.has_delivery or pgq._has_large(payloads, keys, headers, bodies) then
        perform pgq._measure(
            topic collate "C", true, array[state.segment], array[state.stored_partition_id],
            payloads, keys, headers, bodies
        );
    end if;

    published.partition := state.partition;
    published.duplicate := false;
    published.first_offset := coalesce(newest.log_offset + 1, state.segment_first_offset);
    published.last_offset := published.first_offset + size - 1;
    publish_time := greatest(pgq._clock(), newest.published_at, state.segment_entered_at);

    -- Set-returning functions in one select list advance together; null arrays yield nulls.
    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    select
        state.stored_partition_id,
        b.log_offset,
        publish_time,
        state.segment,
        b.key,
        b.header,
        b.payload,
        b.body
    from (
        select
            generate_series(published.first_offset, published.last_offset) as log_offset,
            unnest(keys) as key, unnest(headers) as header,
            unnest(payloads) as payload, unnest(bodies) as body
    ) as b;

    if state.has_delivery then
        perform pgq._deliver(
            state.partition_id, state.stored_partition_id, state.segment, published.first_offset,
            published.last_offset
        );
    end if;

    return next published;
end
$$;

comment on function pgq.publish_batch(text, jsonb[], text[], jsonb[], integer, text[], bytea[]) is
'Appends messages to a topic, all or none, and returns their partitions and offsets.
Returns one row for each range of consecutive offsets in a partition; without duplicates that is one
row for each partition that got messages.
Pass payloads (JSON) or bodies (raw bytes), not both; keys, headers and idempotency_keys are
optional and of the same length. If partition is given, all messages go there; else each goes to the
partition of its key; without keys, all go to one free partition. Within a partition they are in the
order of the array. The partitions are locked for other publishers until the transaction ends. An
idempotency key may be null, which means none. A message whose idempotency key was used before (see
publish), or occurs earlier in the array, is not written; rows with duplicate = true have the
offsets of the messages that these keys identify. An empty array writes nothing. In a deferred topic
no lock is taken, and the offsets are null: see create_topic.
Errors: MQ001 unknown topic, MQ007 unknown partition, 22004 a required argument is null, no
content, or a null in it, 22023 two contents, arrays of other lengths, headers that are no objects,
a bad idempotency key, or a message is too large, 40001 above READ COMMITTED when another
transaction was first (try again).';
