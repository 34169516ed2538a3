create function pgq._check_group(topic text, consumer_group text, partition integer)
returns boolean
language plpgsql stable parallel unsafe
as $$
declare
    target pgq.topic;
begin
    perform pgq._check_access(topic, null, 'consume');

    select t.* into target from pgq.topic as t where t.topic = _check_group.topic;

    if target.topic_id is null then
        perform pgq._fail_unknown_topic(topic);
    end if;

    if consumer_group is null then
        raise exception 'argument "consumer_group" must not be null' using errcode = '22004';
    end if;
    if not exists (
        select from pgq.consumer_group as g
        where g.topic_id = target.topic_id and g.consumer_group = _check_group.consumer_group
    ) then
        raise exception 'unknown consumer group "%" of topic "%"',
            consumer_group, topic
            using errcode = 'MQ003', hint = 'Create it with pgq.create_group.';
    end if;

    if partition is not null and not exists (
        select from pgq.group_partition as l
        where l.topic = _check_group.topic
            and l.consumer_group = _check_group.consumer_group
            and l.partition = _check_group.partition
    ) then
        perform pgq._fail_unknown_partition(topic, partition, target.partitions);
    end if;

    return target.deferred;
end
$$;

comment on function pgq._check_group(text, text, integer) is
'Raises an error for an unknown topic (MQ001), group (MQ003) or partition (MQ007); else returns
whether the topic is deferred.';
