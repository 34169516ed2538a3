create function pgq._announce_topic(topic text)
returns void
language sql volatile parallel unsafe
as $$
select pg_notify('pgq_topic', case when t.restricted then '' else t.topic end)
from pgq.topic as t
where t.topic = _announce_topic.topic collate "C" and t.notify
$$;

comment on function pgq._announce_topic(text) is
'Notifies consumers that there may be messages for a group earlier than before, if the topic has
notify.';
