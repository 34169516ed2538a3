create function pgq._lock_dependents(topic text, queue text)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    perform
    from pgq.schedule as s
    where s.topic = _lock_dependents.topic or s.queue = _lock_dependents.queue
    order by s.schedule
    for no key update;

    perform
    from pgq.topic as t
    inner join pgq.consumer_group as g on g.dead_letter_topic_id = t.topic_id
    inner join pgq.group_partition as l on l.group_id = g.group_id
    where t.topic = _lock_dependents.topic
    order by l.topic, l.consumer_group, l.partition
    for no key update of l;

    perform
    from pgq.queue as q
    inner join pgq.subscription as s on s.queue_id = q.queue_id
    inner join pgq.partition as p on p.topic_id = s.topic_id
    where q.queue = _lock_dependents.queue
    order by p.topic, p.partition
    for update of p;
end
$$;

comment on function pgq._lock_dependents(text, text) is
'Locks what _end_dependents is about to change, before the topic or the queue: those who run a
schedule, consume for a group or publish to a topic lock the target of these last.';
