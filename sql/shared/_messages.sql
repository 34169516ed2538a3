create function pgq._messages(
    segment integer,
    partition_id bigint,
    partition integer,
    first_offset bigint,
    last_offset bigint
)
returns setof pgq.message_record
language sql
stable
parallel safe
as $$
select
    _messages.partition,
    m.log_offset,
    m.published_at,
    m.key,
    m.headers,
    m.payload,
    m.body
from pgq.message as m
where m.segment = _messages.segment
    and m.partition_id = _messages.partition_id
    and m.log_offset between _messages.first_offset and _messages.last_offset
order by m.log_offset
$$;

comment on function pgq._messages(integer, bigint, integer, bigint, bigint) is
'The messages of one partition in one segment, in order; written so that the planner inlines it.';
