create function pgq._first_available(partition_id bigint)
returns bigint
language sql stable parallel safe
as $$
select r.first_offset
from pgq.segment_range as r
where r.partition_id = _first_available.partition_id
order by r.first_offset
limit 1
$$;

comment on function pgq._first_available(bigint) is
'Returns the lowest offset of a partition that retention has not removed.';
