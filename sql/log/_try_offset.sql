create function pgq._try_offset(partition_id bigint, segment integer, log_offset bigint)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    execute format(
        'insert into pgq.message_%1$s (partition_id, log_offset, published_at, segment)
        values ($1, $2, %2$L, %1$s)
        on conflict do nothing',
        segment,
        'infinity'
    )
    using partition_id, log_offset;

    execute format(
        'delete from pgq.message_%1$s where partition_id = $1 and log_offset = $2',
        segment
    )
    using partition_id, log_offset;
end
$$;

comment on function pgq._try_offset(bigint, integer, bigint) is
'Probes for a message that the snapshot does not show, at the offset after the last visible one:
above READ COMMITTED it raises 40001 when the segment has such a message.';
