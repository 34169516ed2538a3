create function pgq._announce(partition_id bigint)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    perform pg_notify('pgq_topic', case when t.restricted then '' else t.topic end)
    from pgq.partition as p
    inner join pgq.topic as t on t.topic_id = p.topic_id
    where p.partition_id = _announce.partition_id and t.notify;

    perform pg_notify('pgq_queue', case when q.restricted then '' else q.queue end)
    from pgq.partition as p
    inner join pgq.subscription as s on s.topic_id = p.topic_id
    inner join pgq.queue as q on q.queue_id = s.queue_id
    where p.partition_id = _announce.partition_id and q.notify;
end
$$;

comment on function pgq._announce(bigint) is
'Notifies consumers of a deferred topic, and workers of the queues subscribed to it, that the caller
has staged messages for a partition; their claims then assign the offsets. Only then are the
subscriptions'' filters applied.';
