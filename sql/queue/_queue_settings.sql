create function pgq._queue_settings()
returns pgq._setting[]
language sql immutable parallel safe
as $$
select array_agg(
    row(v.name, v.kind, v.standard, v.may_lift, v.least, v.most, v.words::text[])::pgq._setting
)
from (
    values
    ('lease', 'interval', '30 seconds', false, 1, null, null),
    ('max_attempts', 'count', '5', true, 1, 2147483647, null),
    ('delay', 'interval', '0', false, 0, null, null),
    ('job_ttl', 'interval', '14 days', true, 1, null, null),
    ('retention', 'interval', '14 days', true, 1, null, null),
    ('backoff', 'interval', '1 second', false, 0, null, null),
    ('backoff_max', 'interval', '1 hour', false, 0, null, null),
    ('backoff_jitter', 'share', '0.1', false, null, null, null),
    ('archive', 'flag', 'true', false, null, null, null),
    ('notify', 'flag', 'false', false, null, null, null),
    ('idempotency_window', 'window', '1 day', false, null, null, null),
    ('unique_until', 'word', 'finished', false, null, null, '{finished,claimed,removed}'),
    ('ordered', 'flag', 'false', false, null, null, null),
    ('after_dead_letter', 'word', 'continue', false, null, null, '{continue,stop}'),
    ('max_leased', 'count', null, true, 1, 10000, null),
    ('rate_limit', 'count', null, true, 1, 1000000, null),
    ('rate_interval', 'interval', null, false, 1, null, null),
    ('rate_burst', 'count', null, false, 1, 1000000, null),
    ('max_unfinished', 'count', null, true, 1, 2147483647, null),
    ('max_leased_per_key', 'count', null, true, 1, 10000, null),
    ('max_message_bytes', 'count', '1048576', false, 1024, 268435456, null),
    ('keep_results', 'flag', 'false', false, null, null, null),
    ('on_duplicate', 'word', 'keep', false, null, null, '{keep,replace,postpone}'),
    ('debounce_max', 'interval', null, true, 1, null, null)
) as v (name, kind, standard, may_lift, least, most, words)
$$;

comment on function pgq._queue_settings() is
'Declares the settings of a queue: type, default, bounds. A new setting needs its line here, its
columns in queue and queue_info, and its argument in create_queue and alter_queue.';
