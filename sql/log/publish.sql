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
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    place integer;
    known_layout integer;
    stored integer;
    home_id bigint;
    leaf integer;
    xid bigint;
    first_offset bigint;
    entered_at timestamptz;
    until timestamptz;
    newest pgq._newest_message;
    followed boolean;
    roles text [];
    caller text;
    state pgq._partition_state;
    published pgq.publish_result;
begin
    -- All that is unusual in one expression, since each of them takes time: -1, or the id of the
    -- transaction where the topic is the one that this session last found to be deferred.
    xid := case
        when (publish.payload is null) = (publish.body is null)
            or publish.idempotency_key is not null
            or current_setting('transaction_isolation') <> 'read committed'
            then -1
        when publish.topic collate "C" = current_setting('pgq.deferred_topic', true)
            then txid_current()
        when publish.headers is not null
            then -1
    end;

    if xid is not null then
        if xid > 0 then
            -- The session knows what the partitions of that topic are like, too: hints, which the
            -- statement checks. It looks at the segment only when the transaction has its id: see
            -- _close_segments. Nothing is locked, so that any partition will do, and the next
            -- transaction takes another one.
            -- Empty where it was set in a transaction that was rolled back.
            known_layout := coalesce(
                nullif(current_setting('pgq.deferred_layout', true), ''), '0'
            )::integer;
            if publish.key is null and publish.headers is null and publish.partition is null then
                place := (xid * 633 & 1023) * (known_layout >> 20) >> 10;
            else
                if publish.headers is not null then
                    perform pgq._check_content(publish.payload, publish.headers, publish.body);
                end if;

                if publish.partition is not null then
                    place := publish.partition;
                elsif publish.key is null then
                    place := (xid * 633 & 1023) * (known_layout >> 20) >> 10;
                else
                    -- The row of partition 0 says for all keys at once how many partitions there
                    -- are: see _settle_partitions.
                    select pgq._home(publish.key collate "C", p.partitions), p.layout
                    into place, known_layout
                    from pgq.partition as p
                    where p.topic = publish.topic collate "C"
                        and p.partition = 0;
                end if;
            end if;

            loop
                leaf := coalesce(known_layout & 524287, 0);
                if leaf > 15 then
                    perform pgq._lock_leaf(leaf);
                end if;

                insert into pgq.message (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    (p.partition_id << 40) + (xid & 1099511627775),
                    nextval('pgq.staged_number') << 20,
                    pgq._clock(),
                    leaf,
                    publish.key,
                    publish.headers,
                    publish.payload,
                    publish.body
                from pgq.partition as p
                where p.topic = publish.topic collate "C"
                    and p.partition = place
                    and p.layout = known_layout
                    and (p.publishers is null or pgq._may(p.publishers));
                get diagnostics stored = row_count;

                if stored > 0 then
                    published.partition := place;
                    published.duplicate := false;
                    if known_layout & 524288 <> 0 then
                        perform pgq._announce(p.partition_id)
                        from pgq.partition as p
                        where p.topic = publish.topic collate "C"
                            and p.partition = place;
                    end if;
                    return next published;
                    return;
                end if;

                select p.partition, p.layout
                into place, known_layout
                from pgq.partition as q
                inner join pgq.partition as p
                    on p.topic = q.topic
                    and p.partition = coalesce(
                        publish.partition,
                        pgq._home(publish.key collate "C", q.partitions),
                        (xid * 633 & 1023) * q.partitions >> 10
                    )
                    and (p.publishers is null or pgq._may(p.publishers))
                where q.topic = publish.topic collate "C"
                    and q.partition = 0;

                exit when known_layout is null;
                perform set_config('pgq.deferred_layout', known_layout::text, false);
            end loop;
        else
            perform pgq._check_content(publish.payload, publish.headers, publish.body);

            if publish.idempotency_key is not null then
                perform pgq._check_idempotency_keys(
                    'idempotency_key', array[publish.idempotency_key collate "C"], 1
                );
                return query
                select k.partition, k.log_offset, k.duplicate
                from pgq._publish_keyed(
                    publish.topic collate "C",
                    case when publish.payload is not null then array[publish.payload] end,
                    array[publish.key],
                    array[publish.headers],
                    publish.partition,
                    array[publish.idempotency_key],
                    case when publish.body is not null then array[publish.body] end
                ) as k;
                return;
            end if;

            if current_setting('transaction_isolation') <> 'read committed' then
                return query
                select b.partition, b.first_offset, b.duplicate
                from pgq.publish_batch(
                    topic => publish.topic,
                    payloads => case
                        when publish.payload is not null then array[publish.payload]
                    end,
                    keys => array[publish.key],
                    headers => array[publish.headers],
                    partition => publish.partition,
                    bodies => case when publish.body is not null then array[publish.body] end
                ) as b;
                return;
            end if;
        end if;
    end if;

    -- The usual case in one statement; _lock_partition knows the others. The one place where
    -- another partition than the nearest free one is worth the wait is behind a key.
    if publish.partition is null and publish.key is null then
        place := pgq._ring();

        select
            p.partition,
            p.stored_partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            p.segment_until,
            p.followed,
            false,
            p.publishers
        into
            published.partition,
            home_id,
            leaf,
            first_offset,
            entered_at,
            until,
            followed,
            published.duplicate,
            roles
        from pgq.partition as p
        where p.topic = publish.topic collate "C"
            and p.ring <= place
            and not p.deferred
        order by p.ring desc
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
            p.followed,
            false,
            p.publishers
        into
            published.partition,
            home_id,
            leaf,
            first_offset,
            entered_at,
            until,
            followed,
            published.duplicate,
            roles
        from pgq.partition as p
        where p.topic = publish.topic collate "C"
            and p.partition = coalesce(
                publish.partition,
                (
                    select pgq._home(publish.key collate "C", q.partitions)
                    from pgq.partition as q
                    where q.topic = publish.topic collate "C"
                        and q.partition = 0
                )
            )
            and not p.deferred
        for no key update;
    end if;

    -- Several conditions, since each takes time in proportion to what it names.
    if (until > pgq._clock() and not followed and roles is null) is not true then
        if roles is not null then
            caller := pgq._caller();
            if (caller collate "C" = any(roles)) is not true then
                if pgq._of_first(caller, roles) is not true then
                    if not pgq._may(roles) then
                        -- As if it were not there.
                        home_id := null;
                        until := null;
                    end if;
                end if;
            end if;
        end if;
        if (until > pgq._clock() and not followed) is not true then
            if home_id is null then
                -- No partition is free, or the topic is deferred, or there is none.
                select p.deferred, p.layout, p.publishers
                into state.deferred, known_layout, roles
                from pgq.partition as p
                where p.topic = publish.topic collate "C"
                    and p.partition = 0;

                if state.deferred is null or not pgq._may(roles) then
                    perform pgq._check_access(publish.topic collate "C", null, 'publish');
                end if;
                if state.deferred
                    and publish.topic collate "C" is distinct from
                    current_setting('pgq.deferred_topic', true)
                then
                    -- It is not looked at again as long as this session publishes to it.
                    perform
                        set_config('pgq.deferred_topic', publish.topic, false),
                        set_config('pgq.deferred_layout', known_layout::text, false);
                    return query
                    select s.*
                    from pgq.publish(
                        topic => publish.topic,
                        payload => publish.payload,
                        key => publish.key,
                        headers => publish.headers,
                        partition => publish.partition,
                        body => publish.body
                    ) as s;
                    return;
                end if;
            end if;

            if (until > pgq._clock()) is not true then
                state := pgq._lock_partition(
                    publish.topic collate "C",
                    publish.partition,
                    publish.key,
                    false,
                    case when published.partition is null then place end
                );
                published.partition := state.partition;
                published.duplicate := false;
                home_id := state.stored_partition_id;
                leaf := state.segment;
                first_offset := state.segment_first_offset;
                entered_at := state.segment_entered_at;
                followed := state.followed;
            end if;
            if followed then
                -- The partition is locked by now.
                return query
                select b.partition, b.first_offset, b.duplicate
                from pgq.publish_batch(
                    topic => publish.topic,
                    payloads => case
                        when publish.payload is not null then array[publish.payload]
                    end,
                    keys => array[publish.key],
                    headers => array[publish.headers],
                    partition => published.partition,
                    bodies => case when publish.body is not null then array[publish.body] end
                ) as b;
                return;
            end if;
        end if;
    end if;

    -- A new statement: its snapshot is younger than the lock, so it sees the newest offset.
    -- Two plain statements take less time than one that joins.
    newest := pgq._newest(home_id, leaf, first_offset);
    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    values (
        home_id,
        coalesce(newest.log_offset + 1, first_offset),
        greatest(pgq._clock(), newest.published_at, entered_at),
        leaf,
        publish.key,
        publish.headers,
        publish.payload,
        publish.body
    );

    published.log_offset := coalesce(newest.log_offset + 1, first_offset);
    return next published;
end
$$;

comment on function pgq.publish(text, jsonb, text, jsonb, integer, text, bytea) is
'Appends one message to a topic, and returns its partition and offset.
Pass payload (JSON) or body (raw bytes), not both. The message goes to the partition that is
named, else to the one that its key belongs to, else to any that is free. That partition is then
locked for other publishers until the transaction ends: publish last, or commit soon. An
idempotency_key (1 to 255 characters) stands for the message that it was given with first, in
whichever partition, for the idempotency_window of the topic: another call with it writes nothing,
whatever its other arguments are, and returns where that message stands as a duplicate. It waits for
a transaction that is publishing that message. In a deferred topic nothing is locked, and log_offset
is null: see create_topic.
Errors: MQ001 unknown topic, MQ007 unknown partition, 22004 a required argument is null, or no
content, 22023 two contents, headers that are no object, or a bad idempotency_key, 40001 above READ
COMMITTED when another transaction was first (try again).';
