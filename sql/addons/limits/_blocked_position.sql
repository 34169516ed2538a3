create function pgq._blocked_position(
    limited_key text, priority integer, due_at timestamptz, job_id bigint
)
returns text
language sql immutable parallel safe
as $$
select concat(
    _blocked_position.limited_key, chr(1), _blocked_position.priority,
    lpad((extract(epoch from _blocked_position.due_at) * 1000000)::bigint::text, 17, '0'),
    lpad(_blocked_position.job_id::text, 19, '0')
)
$$;

comment on function pgq._blocked_position(text, integer, timestamptz, bigint) is
'Returns the sort key of a blocked job among those of its key: the key, chr(1), the
priority, the time since which it is due (microseconds, 17 digits) and its id (19 digits).';
