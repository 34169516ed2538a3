create function pgq._tip(partition_id bigint, segment integer, segment_first_offset bigint)
returns bigint
language sql
stable
parallel safe
as $$
select coalesce(
    (
        select m.log_offset
        from pgq.message as m
        where m.segment = _tip.segment
            and m.partition_id = _tip.partition_id
            and m.log_offset >= _tip.segment_first_offset
        order by m.log_offset desc
        limit 1
    ),
    _tip.segment_first_offset - 1
)
$$;

comment on function pgq._tip(bigint, integer, bigint) is
'The newest offset of a partition; 0 when it never had a message. The planner inlines it.';
