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
'Locks the rows that _end_dependents will change. Call it before locking the topic or queue:
run_schedules, consumers and publishers lock that last, so the other order could deadlock.';
