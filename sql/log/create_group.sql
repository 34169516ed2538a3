create function pgq.create_group(
    topic text,
    consumer_group text,
    start text default 'earliest',
    out_of_range text default 'error'
)
returns pgq.group_info
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    target pgq.topic;
    new_id bigint;
    made pgq.group_info;
begin
    perform pgq._check_name('consumer_group', create_group.consumer_group);
    if (create_group.start in ('earliest', 'latest')) is not true then
        raise exception 'argument "start" must be earliest or latest'
            using errcode = case when create_group.start is null then '22004' else '22023' end;
    end if;
    if (create_group.out_of_range in ('error', 'skip')) is not true then
        raise exception 'argument "out_of_range" must be error or skip'
            using errcode = case
                when create_group.out_of_range is null then '22004'
                else '22023'
            end;
    end if;

    -- One that is there is found without a lock.
    select t.topic, g.consumer_group, g.out_of_range, g.created_at
    into made
    from pgq.topic as t
    inner join pgq.consumer_group as g on g.topic_id = t.topic_id
    where t.topic = create_group.topic
        and g.consumer_group = create_group.consumer_group;

    if made.topic is not null then
        -- An old snapshot may show one that was dropped since; it cannot be locked.
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            perform
            from pgq.consumer_group as g
            inner join pgq.topic as t on t.topic_id = g.topic_id
            where t.topic = create_group.topic
                and g.consumer_group = create_group.consumer_group
            for key share of g;
        end if;

        return made;
    end if;

    -- The lock keeps the number of partitions. The row is changed, though not what it says, so that
    -- whoever adds partitions by an older snapshot, which does not show this group, cannot lock it.
    update pgq.topic as t
    set updated_at = t.updated_at
    where t.topic = create_group.topic
    returning t.*
    into target;

    if target.topic_id is null then
        perform pgq._fail_unknown_topic(create_group.topic);
    end if;

    insert into pgq.consumer_group (topic_id, consumer_group, out_of_range, created_at)
    values (target.topic_id, create_group.consumer_group, create_group.out_of_range, pgq._clock())
    on conflict (topic_id, consumer_group) do nothing
    returning group_id into new_id;

    insert into pgq.group_partition (
        group_id, partition, topic, consumer_group, ring, partition_id, out_of_range
    )
    select
        new_id,
        p.partition,
        target.topic,
        create_group.consumer_group,
        p.ring,
        p.partition_id,
        create_group.out_of_range
    from pgq.partition as p
    where p.topic_id = target.topic_id
        and new_id is not null;

    insert into pgq.group_position (
        group_id, partition, seq, first_offset, next_offset, recorded_at
    )
    select new_id, s.partition, 1, s.next_offset, s.next_offset, pgq._clock()
    from (
        select
            p.partition,
            case create_group.start
                when 'earliest' then pgq._first_available(p.partition_id)
                else pgq._tip(p.partition_id, p.segment, p.segment_first_offset) + 1
            end as next_offset
        from pgq.partition as p
        where p.topic_id = target.topic_id
            and new_id is not null
    ) as s;

    select target.topic, g.consumer_group, g.out_of_range, g.created_at
    into made
    from pgq.consumer_group as g
    where g.topic_id = target.topic_id
        and g.consumer_group = create_group.consumer_group;

    return made;
end
$$;

comment on function pgq.create_group(text, text, text, text) is
'Creates a consumer group of a topic and returns it; one that exists already is returned as it is.
start: earliest (from the oldest message kept) or latest (only what is published from now on).
out_of_range: what happens when retention removed messages that the group has not read: error
(MQ004, until seek), or skip to the oldest that is there.
Errors: MQ001 unknown topic, 22023 bad name or setting, 22004 null, 40001 under REPEATABLE READ or
SERIALIZABLE when the topic got another group or setting since the transaction began (try again).';
