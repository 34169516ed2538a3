create function pgq._first_readable(partition_id bigint)
returns bigint
language sql stable parallel safe
as $$
select min(r.first_offset)
from pgq.segment_range as r
where r.partition_id = _first_readable.partition_id
    and r.first_offset > all(
        select e.first_offset
        from pgq.segment_range as e
        where e.partition_id = _first_readable.partition_id and not pgq._is_kept(e.segment)
    )
$$;

comment on function pgq._first_readable(bigint) is
'Returns the offset from which on nothing of a partition has been truncated.
An old snapshot still shows the ranges of a segment that was truncated since; _first_available is
lower there.';
