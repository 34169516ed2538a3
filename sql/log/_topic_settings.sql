create function pgq._topic_settings()
returns pgq._setting[]
language sql immutable parallel safe
as $$
select array_agg(row(v.name, v.kind, v.standard, v.may_lift, v.least, v.most, null)::pgq._setting)
from (
    values
    ('partitions', 'count', '8', false, 1, 1024),
    ('retention', 'interval', '7 days', true, 1, null),
    ('max_bytes', 'count', null, true, 1, 9223372036854775807),
    ('notify', 'flag', 'false', false, null, null),
    ('idempotency_window', 'window', '1 day', false, null, null),
    ('deferred', 'flag', 'false', false, null, null),
    ('max_message_bytes', 'count', '1048576', false, 1024, 268435456)
) as v (name, kind, standard, may_lift, least, most)
$$;

comment on function pgq._topic_settings() is
'Returns the settings of a topic, with their types, defaults and limits.';
