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

    return query
    with tip as materialized (
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
    ),

    arrival as (
        select
            b.*,
            row_number() over (partition by b.home order by b.position) as place
        from (
            select
                generate_series(1, cardinality(homes)) as position,
                unnest(homes) as home,
                unnest(_publish_spread.keys) as key,
                unnest(_publish_spread.headers) as header,
                unnest(_publish_spread.payloads) as payload,
                unnest(_publish_spread.bodies) as body
        ) as b
    ),

    stored as (
        insert into pgq.message (
            partition_id, log_offset, published_at, segment, key, headers, payload, body
        )
        select
            t.partition_id,
            t.log_offset + a.place,
            t.published_at,
            t.segment,
            a.key,
            a.header,
            a.payload,
            a.body
        from arrival as a
        inner join tip as t on t.partition = a.home
        returning partition_id, log_offset
    )

    select t.partition, min(s.log_offset), max(s.log_offset)
    from stored as s
    inner join tip as t on t.partition_id = s.partition_id
    group by t.partition
    order by t.partition;

    if target.notify then
        perform pg_notify('pgq_topic', _publish_spread.topic);
    end if;
end
$$;

comment on function pgq._publish_spread(text, jsonb[], bytea[], text[], jsonb[], integer) is
'The part of publish_batch that writes to several partitions; locks them in ascending order.';
