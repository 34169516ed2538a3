create function pgq._last_offset(partition_id bigint, segment integer, segment_first_offset bigint)
returns bigint
language sql
stable
parallel safe
as $$
select coalesce(
    (
        pgq._newest(
            _last_offset.partition_id, _last_offset.segment, _last_offset.segment_first_offset
        )
    ).log_offset,
    _last_offset.segment_first_offset - 1
)
$$;

comment on function pgq._last_offset(bigint, integer, bigint) is
'The newest offset of a partition; 0 when it never had a message.';
