create function pgq._last_offset(
    stored_partition_id bigint, segment integer, segment_first_offset bigint
)
returns bigint
language plpgsql stable parallel safe
as $$
declare
    newest_offset bigint := (
        pgq._newest(stored_partition_id, segment, segment_first_offset)
    ).log_offset;
begin
    if newest_offset is not null then
        return newest_offset;
    end if;

    -- No row: the partition has no messages here, or its segment was truncated since the snapshot.
    if not pgq._is_kept(segment) then
        perform pgq._fail_truncated(p.topic)
        from pgq.partition as p
        where p.stored_partition_id = _last_offset.stored_partition_id;
    end if;
    return segment_first_offset - 1;
end
$$;

comment on function pgq._last_offset(bigint, integer, bigint) is
'Returns the newest offset of a partition, 0 if it never had a message; raises 40001 when its
segment was truncated since the snapshot was taken. The same statement must read the row of the
partition.';
