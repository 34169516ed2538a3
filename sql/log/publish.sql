create function pgq.publish(
    topic text,
    payload jsonb default null,
    key text default null,
    headers jsonb default null,
    partition integer default null,
    body bytea default null
)
returns pgq.message_position
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    state pgq._partition_state;
    published pgq.message_position;
begin
    if (publish.payload is null) = (publish.body is null) or publish.headers is not null then
        perform pgq._check_content(publish.payload, publish.body, publish.headers);
    end if;

    if current_setting('transaction_isolation') <> 'read committed' then
        select b.partition, b.first_offset
        into published
        from pgq.publish_batch(
            publish.topic,
            case when publish.payload is not null then array[publish.payload] end,
            case when publish.body is not null then array[publish.body] end,
            array[publish.key],
            array[publish.headers],
            publish.partition
        ) as b;

        return published;
    end if;

    state := pgq._lock_partition(publish.topic, publish.partition, publish.key);
    published.partition := state.partition;

    -- A new statement: its snapshot is younger than the lock, so it sees the newest offset.
    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    select
        state.partition_id,
        coalesce(tip.log_offset, state.segment_first_offset - 1) + 1,
        greatest(pgq._clock(), tip.published_at, state.segment_entered_at),
        state.segment,
        publish.key,
        publish.headers,
        publish.payload,
        publish.body
    from (values (true)) as one (row)
    left join lateral (
        select m.log_offset, m.published_at
        from pgq.message as m
        where m.segment = state.segment
            and m.partition_id = state.partition_id
            and m.log_offset >= state.segment_first_offset
        order by m.log_offset desc
        limit 1
    ) as tip on true
    returning log_offset into published.log_offset;

    if state.notify then
        perform pg_notify('pgq_topic', publish.topic);
    end if;

    return published;
end
$$;

comment on function pgq.publish(text, jsonb, text, jsonb, integer, bytea) is
'Appends one message to a topic and returns its partition and offset.
Pass payload (JSON) or body (raw bytes), not both. The message goes to the partition that is
named, else to the one that its key belongs to, else to any that is free. That partition is then
locked for other publishers until the transaction ends: publish last, or commit soon.
Errors: MQ001 unknown topic, MQ007 unknown partition, 22004 no content, 22023 two contents or
headers that are no object, 40001 under REPEATABLE READ or SERIALIZABLE when another publisher was
first (try again).';
