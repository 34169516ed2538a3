create function pgq.drop_topic(topic text)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    target pgq.topic;
    partition_ids bigint[];
    group_ids bigint[];
begin
    -- Publishers that are under way end first; those that come later find nothing. They may need
    -- the row of the topic while they hold a partition, so it is locked after the partitions.
    perform
    from pgq.topic as t
    inner join pgq.partition as p on p.topic_id = t.topic_id
    where t.topic = drop_topic.topic
    order by p.partition
    for update of p;

    select t.*
    into target
    from pgq.topic as t
    where t.topic = drop_topic.topic
    for update;

    if target.topic_id is null then
        perform pgq._fail_unknown_topic(drop_topic.topic);
    end if;

    -- Partitions that were added in between.
    perform
    from pgq.partition as p
    where p.topic_id = target.topic_id
    order by p.partition
    for update;

    partition_ids := array(
        select p.partition_id from pgq.partition as p where p.topic_id = target.topic_id
    );
    group_ids := array(
        select g.group_id from pgq.consumer_group as g where g.topic_id = target.topic_id
    );

    delete from pgq.topic as t
    where t.topic_id = target.topic_id;

    -- Only now: members that were under way have ended, and noted their last position.
    delete from pgq.group_position as j
    where j.group_id = any(group_ids);

    perform pgq._forget_messages(partition_ids, target.storage_class_id);
end
$$;

comment on function pgq.drop_topic(text) is
'Removes a topic with its messages and consumer groups; waits for transactions that publish to it.
Errors: MQ001 unknown topic.';
