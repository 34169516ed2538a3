create function pgq._tip(partition_id bigint, segment integer, segment_first_offset bigint)
returns bigint
language sql
stable
parallel safe
as $$
select coalesce(
    (pgq._newest(_tip.partition_id, _tip.segment, _tip.segment_first_offset)).log_offset,
    _tip.segment_first_offset - 1
)
$$;

comment on function pgq._tip(bigint, integer, bigint) is
'The newest offset of a partition; 0 when it never had a message.';
