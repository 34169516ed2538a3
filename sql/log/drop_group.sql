create function pgq.drop_group(topic text, consumer_group text)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    target_id bigint;
begin
    -- Members end first. Only then the topic, which an alter_topic that adds partitions to its
    -- groups locks.
    perform
    from pgq.group_partition as l
    where l.topic = drop_group.topic collate "C"
        and l.consumer_group = drop_group.consumer_group collate "C"
    order by l.partition
    for update;

    perform
    from pgq.topic as t
    where t.topic = drop_group.topic collate "C"
    for share;

    perform pgq._check_group(drop_group.topic collate "C", drop_group.consumer_group, null);

    delete from pgq.consumer_group as g
    using pgq.topic as t
    where t.topic = drop_group.topic collate "C"
        and g.topic_id = t.topic_id
        and g.consumer_group = drop_group.consumer_group collate "C"
    returning g.group_id
    into target_id;

    delete from pgq.group_position as j
    where j.group_id = target_id;
end
$$;

comment on function pgq.drop_group(text, text) is
'Removes a consumer group with its positions; waits for transactions that consume for it.
Errors: MQ001 unknown topic, MQ003 unknown group, 40001 under REPEATABLE READ or SERIALIZABLE when
another transaction was first.';
