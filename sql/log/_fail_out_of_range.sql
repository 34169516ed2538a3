create function pgq._fail_out_of_range(
    topic text, partition integer, log_offset bigint, partition_id bigint, last_available bigint,
    for_group boolean
)
returns void
language plpgsql stable parallel safe
as $$
begin
    raise exception 'offset % of topic "%", partition % is out of range',
        log_offset, topic, partition
        using errcode = 'MQ004',
            detail = format(
                'First available offset: %s; last available offset: %s.',
                pgq._first_readable(partition_id), last_available
            ),
            hint = case
                when log_offset > last_available then
                    'It is not published yet, or not visible here: not committed or replicated.'
                when for_group then
                    'Retention has removed it. Use pgq.seek, or let the group skip what is gone, '
                    'by pgq.alter_group with out_of_range => ''skip''.'
                else 'Retention has removed it. pgq.list_offsets shows what is there.'
            end;
end
$$;

comment on function pgq._fail_out_of_range(text, integer, bigint, bigint, bigint, boolean) is
'Raises MQ004 with the available offsets; for_group: it is the next offset of a consumer group.';
