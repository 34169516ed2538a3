create function pgq._parked_place(
    limited_key text, priority integer, due_at timestamptz, job_id bigint
)
returns text
language sql immutable parallel safe
as $$
select concat(
    _parked_place.limited_key, chr(1), _parked_place.priority,
    lpad((extract(epoch from _parked_place.due_at) * 1000000)::bigint::text, 17, '0'),
    lpad(_parked_place.job_id::text, 19, '0')
)
$$;

comment on function pgq._parked_place(text, integer, timestamptz, bigint) is
'Where a parked job stands among those of its key, as a text: the key, chr(1), its priority, since
when it is due, and its id.';
