create function pgq._fail_incomplete(source pgq.partition, first_offset bigint, last_offset bigint)
returns void
language plpgsql stable parallel safe
as $$
begin
    perform pgq._fail_out_of_range(
        (source).topic, (source).partition,
        case
            when first_offset < s.first_available
                or last_offset <= s.last_available then first_offset
            else greatest(first_offset, s.last_available + 1)
        end,
        (source).partition_id, s.last_available, false
    )
    from (
        select
            pgq._first_readable((source).partition_id) as first_available,
            pgq._last_offset(
                (source).stored_partition_id, (source).segment, (source).segment_first_offset
            ) as last_available
    ) as s;
end
$$;

comment on function pgq._fail_incomplete(pgq.partition, bigint, bigint) is
'Raises MQ004 for a range of a partition that is not available as a whole; the error names the first
missing offset.';
