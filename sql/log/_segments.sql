create function pgq._segments(partition_id bigint, first_offset bigint, last_offset bigint)
returns integer[]
language sql
stable
parallel safe
as $$
select array_agg(s.segment order by s.first_offset)
from (
    select
        r.segment,
        r.first_offset,
        lead(r.first_offset) over (order by r.first_offset) as next_first_offset
    from pgq.segment_range as r
    where r.partition_id = _segments.partition_id
) as s
where s.first_offset <= _segments.last_offset
    and coalesce(s.next_first_offset > _segments.first_offset, true)
$$;

comment on function pgq._segments(bigint, bigint, bigint) is
'The segments that hold a range of a partition''s offsets, in order.';
