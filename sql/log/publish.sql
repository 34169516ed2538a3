create function pgq.publish(
    topic text,
    payload jsonb default null,
    key text default null,
    headers jsonb default null,
    partition integer default null,
    idempotency_key text default null,
    body bytea default null
)
returns setof pgq.publish_result
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
    start_at integer;
    store_id bigint;
    leaf integer;
    first_offset bigint;
    entered_at timestamptz;
    until timestamptz;
    has_delivery boolean;
    roles text[];
    is_large boolean;
    state pgq._partition_state;
    newest_offset bigint;
    newest_at timestamptz;
    published pgq.publish_result;
begin
    -- Fast path: test all special cases in one expression, since every PL/pgSQL expression takes
    -- time.
    if (payload is null) = (body is null)
        or headers is not null
        or idempotency_key is not null
        or pgq._is_large(payload, key, headers, body)
        or current_setting('transaction_isolation') <> 'read committed'
    then
        perform pgq._check_content(payload, headers, body);
        is_large := pgq._is_large(payload, key, headers, body);
        if idempotency_key is not null
            or current_setting('transaction_isolation') <> 'read committed'
        then
            return query
            select g.*
            from pgq._publish_guarded(
                topic collate "C", payload, key, headers, partition, idempotency_key, body
            ) as g;
            return;
        end if;
    end if;

    -- Lock one partition: the named one or that of the key, else the nearest free one.
    if partition is null and key is null then
        start_at := pgq._hash_position();

        select
            p.partition,
            p.stored_partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            p.segment_until,
            p.has_delivery,
            p.publishers,
            false
        into
            published.partition,
            store_id,
            leaf,
            first_offset,
            entered_at,
            until,
            has_delivery,
            roles,
            published.duplicate
        from pgq.partition as p
        where p.topic = publish.topic collate "C" and p.publish_position <= start_at
        order by p.publish_position desc
        limit 1
        for no key update skip locked;
    else
        select
            p.partition,
            p.stored_partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            p.segment_until,
            p.has_delivery,
            p.publishers,
            false
        into
            published.partition,
            store_id,
            leaf,
            first_offset,
            entered_at,
            until,
            has_delivery,
            roles,
            published.duplicate
        from pgq.partition as p
        where p.topic = publish.topic collate "C"
            and p.partition = coalesce(
                publish.partition,
                (
                    select pgq._key_partition(key collate "C", q.partitions)
                    from pgq.partition as q
                    where q.topic = publish.topic collate "C" and q.partition = 0
                )
            )
            and not p.deferred
        for no key update;
    end if;

    if (
        until > pgq._clock() and not has_delivery and roles is null and is_large is not true
    ) is not true then
        if roles is not null and not pgq._may(roles) then
            -- Report a forbidden topic as unknown, so that names do not leak.
            store_id := null;
            until := null;
            published.partition := null;
        end if;
        if store_id is null then
            published.partition := pgq._publish_deferred(
                topic collate "C", payload, key, headers, partition, is_large, body
            );
            if published.partition is not null then
                published.duplicate := false;
                return next published;
                return;
            end if;
        end if;
        if (until > pgq._clock()) is not true then
            state := pgq._lock_partition(
                topic collate "C", coalesce(published.partition, partition), key, false,
                case when store_id is null then start_at end
            );
            published.partition := state.partition;
            published.duplicate := false;
            store_id := state.stored_partition_id;
            leaf := state.segment;
            first_offset := state.segment_first_offset;
            entered_at := state.segment_entered_at;
            has_delivery := state.has_delivery;
        end if;
        if has_delivery then
            -- The partition is locked by now.
            return query
            select g.*
            from pgq._publish_guarded(
                topic collate "C", payload, key, headers, published.partition, null, body
            ) as g;
            return;
        end if;
        if is_large then
            perform pgq._note_size(
                leaf, store_id,
                pgq._check_size(
                    topic collate "C", null, null, array[payload], array[key], array[headers],
                    array[body]
                )
            );
        end if;
    end if;

    -- New statement: its snapshot is newer than the lock, so it shows the newest offset.
    -- for the first 48 leaves: leaf
    select m.log_offset, m.published_at
    from pgq.message_{leaf} as m
    where m.partition_id = {store_id} and m.log_offset >= {first_offset}
    order by m.log_offset desc
    limit 1
    into newest_offset, newest_at;
    -- end of the leaf
    published.log_offset := coalesce(newest_offset + 1, first_offset);
    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    values (
        store_id,
        published.log_offset,
        greatest(pgq._clock(), newest_at, entered_at),
        leaf,
        key,
        headers,
        payload,
        body
    );

    return next published;
end
$$;

comment on function pgq.publish(text, jsonb, text, jsonb, integer, text, bytea) is
'Appends one message to a topic, and returns its partition and offset.
Pass payload (JSON) or body (raw bytes), not both. The message goes to the named partition, else to
the partition of its key, else to any free partition. That partition is then locked for other
publishers until the transaction ends: publish last, or commit soon. An idempotency_key (1 to 255
characters) identifies the first message published with it, in any partition, for the
idempotency_window of the topic: another call with this key writes nothing, whatever its other
arguments are, and returns the partition and offset of that message as a duplicate. It waits for an
open transaction that has published with this key. The content may have as many bytes as the
topic''s max_message_bytes, key and headers together 256 KiB. In a deferred topic no lock is taken,
and log_offset is null: see create_topic.
Errors: MQ001 unknown topic, MQ007 unknown partition, 22004 a required argument is null, or no
content, 22023 two contents, headers that are no object, a bad idempotency_key, or too large, 40001
above READ COMMITTED when another transaction was first (try again).';
