create function pgq._fail_incomplete(place pgq.partition, first_offset bigint, last_offset bigint)
returns void
language plpgsql stable parallel safe
as $$
begin
    perform pgq._fail_out_of_range(
        (_fail_incomplete.place).topic, (_fail_incomplete.place).partition,
        case
            when _fail_incomplete.first_offset < s.first_available
                or _fail_incomplete.last_offset <= s.last_available
                then _fail_incomplete.first_offset
            else greatest(_fail_incomplete.first_offset, s.last_available + 1)
        end,
        (_fail_incomplete.place).partition_id, s.last_available, false
    )
    from (
        select
            pgq._first_readable((_fail_incomplete.place).partition_id) as first_available,
            pgq._last_offset(
                (_fail_incomplete.place).stored_partition_id, (_fail_incomplete.place).segment,
                (_fail_incomplete.place).segment_first_offset
            ) as last_available
    ) as s;
end
$$;

comment on function pgq._fail_incomplete(pgq.partition, bigint, bigint) is
'Raises MQ004 for a range of a partition that is not available as a whole; the error names the first
missing offset.';
