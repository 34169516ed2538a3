create function pgq._has_delivery(topic pgq.topic)
returns boolean
language sql stable parallel safe
as $$
select
    (topic).notify
    or (topic).max_message_bytes < 12288
    or exists (select from pgq.subscription as s where s.topic_id = (topic).topic_id)
$$;

comment on function pgq._has_delivery(pgq.topic) is
'Whether a publish to the topic has more to do than to store messages: it has notify, subscriptions,
or a max_message_bytes below the 12 KiB up to which publish does not look at the size.';
