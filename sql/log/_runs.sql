create function pgq._runs(partition_id bigint, first_offset bigint, last_offset bigint)
returns table (
    segment integer,
    stored_partition_id bigint,
    shift bigint,
    published_at timestamptz,
    first_offset bigint,
    last_offset bigint
)
language sql
stable
parallel safe
as $$
select
    r.segment,
    r.stored_partition_id,
    r.shift,
    r.published_at,
    greatest(r.first_offset, _runs.first_offset),
    least(r.next_first_offset - 1, _runs.last_offset)
from (
    select
        s.*,
        coalesce(
            lead(s.first_offset) over (order by s.first_offset), 9223372036854775807
        ) as next_first_offset
    from pgq.segment_range as s
    where s.partition_id = _runs.partition_id
) as r
where r.first_offset <= _runs.last_offset
    and r.next_first_offset > _runs.first_offset
order by r.first_offset
$$;

comment on function pgq._runs(bigint, bigint, bigint) is
'Where the offsets of a range of a partition are stored: a row for each run of them, in order.';
