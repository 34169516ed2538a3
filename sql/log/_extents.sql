create function pgq._extents(partition_id bigint, first_offset bigint, last_offset bigint)
returns table (
    segment integer,
    stored_partition_id bigint,
    shift bigint,
    published_at timestamptz,
    first_offset bigint,
    last_offset bigint
)
language sql stable parallel safe
as $$
select
    r.segment, r.stored_partition_id, r.shift, r.published_at,
    greatest(r.first_offset, _extents.first_offset),
    least(r.next_first_offset - 1, _extents.last_offset)
from (
    select
        s.*,
        lead(s.first_offset, 1, 9223372036854775807)
            over (order by s.first_offset) as next_first_offset
    from pgq.segment_range as s
    where s.partition_id = _extents.partition_id
        and s.first_offset <= _extents.last_offset
        -- Bound the index scan from below: there may be thousands of ranges.
        and s.first_offset >= coalesce(
            (
                select b.first_offset
                from pgq.segment_range as b
                where b.partition_id = _extents.partition_id
                    and b.first_offset <= _extents.first_offset
                order by b.first_offset desc
                limit 1
            ),
            _extents.first_offset
        )
) as r
order by r.first_offset
$$;

comment on function pgq._extents(bigint, bigint, bigint) is
'Returns where a range of offsets of a partition is stored: one row per stored range, in order.';
