create function pgq._lock_topic(topic text)
returns pgq.topic
language plpgsql volatile parallel unsafe
as $$
declare
    target pgq.topic;
begin
    loop
        -- Deadlock: publishers may lock the topic's row while they hold a partition, so lock the
        -- partitions first.
        perform
        from pgq.partition as p
        where p.topic = _lock_topic.topic
        order by p.partition
        for update;

        select t.* into target from pgq.topic as t where t.topic = _lock_topic.topic for update;

        exit when target.topic_id is not null;
        perform pgq._check_topic(topic);
    end loop;

    -- Also lock partitions that were added between the two statements.
    perform
    from pgq.partition as p
    where p.topic_id = target.topic_id
    order by p.partition
    for update;

    return target;
end
$$;

comment on function pgq._lock_topic(text) is
'Locks a topic and its partitions (FOR UPDATE) until the transaction ends, and returns the topic.
Raises MQ001.';
