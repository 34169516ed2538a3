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
    home record;
    tip_offset bigint;
    tip_published_at timestamptz;
    published pgq.message_position;
begin
    if (publish.payload is null) = (publish.body is null)
        or publish.headers is not null
        or current_setting('transaction_isolation') in ('repeatable read', 'serializable')
    then
        perform pgq._check_content(publish.payload, publish.body, publish.headers);

        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
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
    end if;

    -- What _lock_partition does first, here without the call: it takes less time.
    if publish.partition is null and publish.key is null then
        select
            p.partition,
            p.partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            t.segment as topic_segment,
            t.notify
        into home
        from pgq.topic as t
        inner join pgq.partition as p
            on p.topic_id = t.topic_id
            and p.partition
            = (pg_backend_pid() + date_part('epoch', now())::bigint) % t.partitions
        where t.topic = publish.topic
        for no key update of p skip locked;
    else
        select
            p.partition,
            p.partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            t.segment as topic_segment,
            t.notify
        into home
        from pgq.topic as t
        inner join pgq.partition as p
            on p.topic_id = t.topic_id
            and p.partition = coalesce(
                publish.partition,
                (hashtextextended(publish.key, 0) % t.partitions + t.partitions) % t.partitions
            )
        where t.topic = publish.topic
        for no key update of p;
    end if;

    if (home.segment = home.topic_segment) is not true then
        home := pgq._lock_partition(publish.topic, publish.partition, publish.key);
    end if;

    -- A new statement: its snapshot is younger than the lock, so it sees the newest offset.
    select m.log_offset, m.published_at
    into tip_offset, tip_published_at
    from pgq.message as m
    where m.segment = home.segment
        and m.partition_id = home.partition_id
        and m.log_offset >= home.segment_first_offset
    order by m.log_offset desc
    limit 1;

    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    values (
        home.partition_id,
        coalesce(tip_offset + 1, home.segment_first_offset),
        greatest(pgq._clock(), tip_published_at, home.segment_entered_at),
        home.segment,
        publish.key,
        publish.headers,
        publish.payload,
        publish.body
    )
    returning home.partition, log_offset
    into published;

    if home.notify then
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
