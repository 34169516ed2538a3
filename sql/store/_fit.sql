create function pgq._fit(
    segment integer, partition_id bigint, first_offset bigint, last_offset bigint, max_bytes bigint,
    least_messages integer default 1, exact boolean default false
)
returns pgq._fit
language plpgsql stable parallel safe
as $$
declare
    most_bytes bigint;
    log_offset bigint;
    bytes bigint;
    fit pgq._fit;
begin
    select coalesce(max(s.bytes), 32768)
    into most_bytes
    from pgq.size_bound as s
    where s.segment = _fit.segment and s.partition_id = _fit.partition_id;

    fit.last_offset := last_offset;
    fit.bytes := (last_offset - first_offset + 1) * most_bytes;
    fit.cut_short := false;
    if fit.bytes <= max_bytes and not exact then
        return fit;
    end if;

    -- Measure no more than what fits.
    fit.bytes := 0;
    for log_offset, bytes in execute format(
        'select m.log_offset, pgq._message_bytes(m.payload, m.key, m.headers, m.body)
        from pgq.message_%s as m
        where m.partition_id = $1
            and m.log_offset between $2 and $3
        order by m.log_offset',
        segment
    ) using partition_id, first_offset, last_offset loop
        if fit.bytes + bytes > max_bytes
            and log_offset >= first_offset + least_messages
        then
            fit.last_offset := log_offset - 1;
            fit.cut_short := true;
            return fit;
        end if;
        fit.bytes := fit.bytes + bytes;
    end loop;
    return fit;
end
$$;

comment on function pgq._fit(integer, bigint, bigint, bigint, bigint, integer, boolean) is
'The last of a range of messages, stored under one partition_id in one segment, that are together
not larger than max_bytes; and their size, or a bound for it where none is left out and it need not
be exact. least_messages: this number is returned whatever the size.';
