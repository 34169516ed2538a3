create function pgq._lock_schedule_target(queue text, topic text, partition integer)
returns bigint
language plpgsql volatile parallel unsafe
as $$
declare
    target_id bigint;
    partitions integer;
begin
    perform pgq._check_access(topic, queue, 'publish');

    while target_id is null and queue is not null loop
        select q.queue_id
        into target_id
        from pgq.queue as q
        where q.queue = _lock_schedule_target.queue
        for no key update;

        if target_id is null then
            perform pgq._check_queue(queue);
        end if;
    end loop;

    while target_id is null loop
        select t.topic_id, t.partitions
        into target_id, partitions
        from pgq.topic as t
        where t.topic = _lock_schedule_target.topic
        for no key update;

        if target_id is null then
            perform pgq._check_topic(topic);
        end if;
    end loop;

    perform pgq._touch_target(
        case when queue is null then target_id end, case when queue is not null then target_id end
    );
    perform pgq._check_access(topic, queue, 'publish');

    if partition not between 0 and partitions - 1 then
        perform pgq._fail_unknown_partition(topic, partition, partitions);
    end if;
    return target_id;
end
$$;

comment on function pgq._lock_schedule_target(text, text, integer) is
'Locks the target queue or topic of a schedule until the transaction ends, and returns its id.
Refuses a missing target or partition (MQ001, MQ002, MQ007), and a caller that may not publish to it
(42501).';
