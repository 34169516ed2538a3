create function pgq.create_group(
    topic text,
    consumer_group text,
    start text default 'earliest',
    out_of_range text default null,
    max_attempts integer default null,
    dead_letter_topic text default null
)
returns setof pgq.group_info
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    target pgq.topic;
    dead_letter_id bigint;
    created pgq.consumer_group;
    existing pgq.group_info;
begin
    perform pgq._check_name('consumer_group', consumer_group collate "C");
    if start collate "C" not in ('earliest', 'latest') then
        raise exception 'argument "start" must be earliest or latest' using errcode = '22023';
    end if;
    perform pgq._check_out_of_range(out_of_range collate "C");
    perform pgq._check_dead_letters(topic collate "C", max_attempts, dead_letter_topic collate "C");
    perform pgq._check_access(topic collate "C", null, 'consume');
    perform pgq._check_access(dead_letter_topic collate "C", null, 'publish');

    -- An existing group is found without a lock.
    select i.* into existing from pgq._group_info(topic collate "C", consumer_group) as i;

    if existing.topic is not null then
        -- An old snapshot may show a dropped group: then the lock raises 40001.
        if pgq._keeps_snapshot() then
            perform
            from pgq.consumer_group as g
            inner join pgq.topic as t on t.topic_id = g.topic_id
            where t.topic = create_group.topic collate "C"
                and g.consumer_group = create_group.consumer_group collate "C"
            for key share of g;
        end if;

        perform pgq._check_settings_equal(
            'consumer group', consumer_group collate "C",
            jsonb_build_object(
                'out_of_range', out_of_range, 'max_attempts', max_attempts,
                'dead_letter_topic', dead_letter_topic
            ),
            null, to_jsonb(existing), null
        );
        return next existing;
        return;
    end if;

    dead_letter_id := pgq._lock_dead_letter_topic(topic collate "C", dead_letter_topic collate "C");
    -- Recheck: access may have changed while this call waited for the lock; now it cannot.
    perform pgq._check_access(dead_letter_topic collate "C", null, 'publish');
    perform pgq._check_both_set(max_attempts, dead_letter_id);

    -- The lock freezes the number of partitions. No-op update: a transaction with an older
    -- snapshot, which does not show this group, then cannot add partitions; it fails with 40001.
    loop
        update pgq.topic as t
        set updated_at = t.updated_at
        where t.topic = create_group.topic collate "C"
        returning t.*
        into target;

        exit when target.topic_id is not null;
        perform pgq._check_topic(topic collate "C");
    end loop;

    if target.deferred and start collate "C" = 'latest' then
        -- Assign offsets to the messages staged so far, so that the group starts after them.
        perform from pgq._assign_all(target.topic, null, null);
    end if;

    insert into pgq.consumer_group (
        topic_id,
        consumer_group,
        out_of_range,
        created_at,
        updated_at,
        max_attempts,
        dead_letter_topic_id,
        dead_letters_by
    )
    values (
        target.topic_id,
        consumer_group,
        coalesce(out_of_range, 'error'),
        pgq._clock(),
        pgq._clock(),
        max_attempts,
        dead_letter_id,
        case when dead_letter_id is not null then pgq._maker() end
    )
    on conflict (topic_id, consumer_group) do nothing
    returning *
    into created;

    if created.group_id is null then
        -- Another transaction has created the group in the meantime.
        return query
        select c.*
        from pgq.create_group(
            topic, consumer_group, start, out_of_range, max_attempts, dead_letter_topic
        ) as c;
        return;
    end if;

    perform pgq._enter_partitions(created, start collate "C" is not distinct from 'latest');
    return query select i.* from pgq._group_info(topic collate "C", consumer_group) as i;
end
$$;

comment on function pgq.create_group(text, text, text, text, integer, text) is
'Creates a consumer group and returns it; an existing one is returned if the given settings agree.
start: earliest (from the oldest message kept, the default) or latest (only messages published from
now on; in a deferred topic also those to which another transaction is just assigning offsets); it
is not compared for an existing group. out_of_range: the behaviour when retention has removed
messages that the group has not read: error (MQ004 until seek, the default), or skip to the oldest
message available. max_attempts and dead_letter_topic, which must be another topic: a batch that
failed max_attempts times, by nack_offsets or because its lease expired, is delivered message by
message from then on. A single message that then fails max_attempts times is published to the
dead-letter topic with its key and content, and with headers that give its origin and the reason:
pgq_topic, pgq_partition, pgq_offset, pgq_group, pgq_attempts, pgq_error, pgq_published_at. The
group continues after it. By default there is no limit: the group stays at a failing message.
Errors: MQ001 unknown topic, MQ005 the group exists with other settings than those given,
22004 a required argument is null, 22023 bad name or setting, 40001 above READ COMMITTED when
another transaction was first, or at any level when retention removes what is being read (try
again).';
