create function pgq._topic_info(topic text)
returns setof pgq.topic_info
language sql stable parallel safe rows 1
as $$
select
    t.topic, t.partitions, c.retention, c.max_bytes, t.notify, t.created_at, t.updated_at,
    t.idempotency_window, t.deferred, t.restricted, t.max_message_bytes
from pgq.topic as t
inner join pgq.storage_class as c on c.storage_class_id = t.storage_class_id
where t.topic = _topic_info.topic
$$;

comment on function pgq._topic_info(text) is
'Returns a topic and its settings; no row if it does not exist.';
