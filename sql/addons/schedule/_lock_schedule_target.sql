create function pgq._lock_schedule_target(queue text, topic text, partition integer)
returns bigint
language plpgsql volatile parallel unsafe
as $$
declare
    target_id bigint;
    partitions integer;
    is_ours boolean;
begin
    perform pgq._check_access(topic, queue, 'publish');

    -- Update the row without changing a value: a change of access, which locks the row, then waits,
    -- or fails under an older snapshot. Once per transaction (xmin): its later statements would
    -- have to pass each row version that it has made.
    while target_id is null and queue is not null loop
        select q.queue_id, q.xmin = pg_current_xact_id()::xid
        into target_id, is_ours
        from pgq.queue as q
        where q.queue = _lock_schedule_target.queue
        for no key update;

        if target_id is null then
            perform pgq._check_queue(queue);
        elsif not is_ours then
            update pgq.queue as q set updated_at = q.updated_at where q.queue_id = target_id;
        end if;
    end loop;

    while target_id is null loop
        select t.topic_id, t.partitions, t.xmin = pg_current_xact_id()::xid
        into target_id, partitions, is_ours
        from pgq.topic as t
        where t.topic = _lock_schedule_target.topic
        for no key update;

        if target_id is null then
            perform pgq._check_topic(topic);
        elsif not is_ours then
            update pgq.topic as t set updated_at = t.updated_at where t.topic_id = target_id;
        end if;
    end loop;
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
