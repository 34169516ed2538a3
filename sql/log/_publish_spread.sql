create function pgq._publish_spread(
    topic text,
    payloads jsonb[],
    bodies bytea[],
    keys text[],
    headers jsonb[],
    partition integer
)
returns setof pgq.offset_range
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target pgq.topic;
    state pgq._partition_state;
    homes integer[];
    fallback integer;
    stamp timestamptz;
    -- What was found of each partition, by its number, and the offset of each message.
    tip record;
    tips bigint[];
    newest bigint[];
    ids bigint[];
    segments integer[];
    stamps timestamptz[];
    offsets bigint[] := array_fill(
        null::bigint, array[cardinality(coalesce(_publish_spread.payloads, '{}'))
            + cardinality(coalesce(_publish_spread.bodies, '{}'))]
    );
    home integer;
    place integer := 0;
begin
    select t.*
    into target
    from pgq.topic as t
    where t.topic = _publish_spread.topic;

    if target.topic_id is null then
        perform pgq._fail_unknown_topic(_publish_spread.topic);
    end if;

    -- Messages without a key go where one with a key goes, or else where there is room: taking a
    -- free partition besides the keyed ones would break the order in which locks are taken.
    fallback := coalesce(
        _publish_spread.partition,
        (
            select (hashtextextended(k.key, 0) % target.partitions + target.partitions)
                % target.partitions
            from unnest(_publish_spread.keys) as k (key)
            where k.key is not null
            limit 1
        )
    );
    if fallback is null or _publish_spread.partition is not null then
        state := pgq._lock_partition(_publish_spread.topic, fallback, null);
        fallback := state.partition;
    end if;

    select array_agg(
        case
            when _publish_spread.partition is not null or k.key is null then fallback
            else (hashtextextended(k.key, 0) % target.partitions + target.partitions)
                % target.partitions
        end
        order by k.position
    )
    into homes
    from (
        select
            generate_series(
                1,
                coalesce(
                    cardinality(_publish_spread.payloads), cardinality(_publish_spread.bodies)
                )
            ) as position,
            unnest(_publish_spread.keys) as key
    ) as k;

    for state in
        select
            p.partition,
            p.partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            target.segment,
            target.notify
        from pgq.partition as p
        where p.topic_id = target.topic_id
            and p.partition = any(homes)
        order by p.partition
        for no key update
    loop
        if state.segment <> state.topic_segment then
            perform pgq._enter_segment(_publish_spread.topic, state);
        end if;
    end loop;

    if not found then
        -- The topic was dropped while this call waited for its partitions, and perhaps made anew.
        return query
        select s.partition, s.first_offset, s.last_offset
        from pgq._publish_spread(
            _publish_spread.topic,
            _publish_spread.payloads,
            _publish_spread.bodies,
            _publish_spread.keys,
            _publish_spread.headers,
            _publish_spread.partition
        ) as s;
        return;
    end if;

    stamp := pgq._clock();

    -- A new statement: its snapshot is younger than the locks, so it sees the newest offsets.
    for tip in
        select
            p.partition,
            p.partition_id,
            p.segment,
            coalesce(m.log_offset, p.segment_first_offset - 1) as log_offset,
            greatest(stamp, m.published_at, p.segment_entered_at) as published_at
        from pgq.partition as p
        left join lateral (
            select n.log_offset, n.published_at
            from pgq.message as n
            where n.segment = p.segment
                and n.partition_id = p.partition_id
                and n.log_offset >= p.segment_first_offset
            order by n.log_offset desc
            limit 1
        ) as m on true
        where p.topic_id = target.topic_id
            and p.partition = any(homes)
    loop
        tips[tip.partition] := tip.log_offset;
        newest[tip.partition] := tip.log_offset;
        ids[tip.partition] := tip.partition_id;
        segments[tip.partition] := tip.segment;
        stamps[tip.partition] := tip.published_at;
    end loop;

    -- In a loop: it takes less time than a window function, which has to sort the messages.
    foreach home in array homes loop
        newest[home] := newest[home] + 1;
        place := place + 1;
        offsets[place] := newest[home];
    end loop;

    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    select
        ids[b.home],
        b.log_offset,
        stamps[b.home],
        segments[b.home],
        b.key,
        b.header,
        b.payload,
        b.body
    from (
        select
            unnest(homes) as home,
            unnest(offsets) as log_offset,
            unnest(_publish_spread.keys) as key,
            unnest(_publish_spread.headers) as header,
            unnest(_publish_spread.payloads) as payload,
            unnest(_publish_spread.bodies) as body
    ) as b;

    return query
    select g.partition, tips[g.partition] + 1, newest[g.partition]
    from generate_subscripts(tips, 1) as g (partition)
    where tips[g.partition] is not null
    order by g.partition;

    if target.notify then
        perform pg_notify('pgq_topic', _publish_spread.topic);
    end if;
end
$$;

comment on function pgq._publish_spread(text, jsonb[], bytea[], text[], jsonb[], integer) is
'The part of publish_batch that writes to several partitions; locks them in ascending order.';
