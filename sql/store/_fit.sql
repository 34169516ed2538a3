create function pgq._fit(
    segment integer, partition_id bigint, first_offset bigint, last_offset bigint, max_bytes bigint,
    least_messages integer default 1
)
returns pgq._fit
language plpgsql stable parallel safe
as $$
declare
    most_bytes bigint;
    fit pgq._fit;
begin
    select coalesce(max(s.bytes), 32768)
    into most_bytes
    from pgq.size_bound as s
    where s.segment = _fit.segment and s.partition_id = _fit.partition_id;

    fit.last_offset := last_offset;
    fit.bytes := (last_offset - first_offset + 1) * most_bytes;
    fit.cut_short := false;
    if fit.bytes > max_bytes then
        execute format(
            'select
                coalesce(max(s.log_offset), $2 - 1), coalesce(max(s.bytes), 0),
                coalesce(max(s.log_offset), $2 - 1) < $3
            from (
                select
                    m.log_offset,
                    sum(pgq._message_bytes(m.payload, m.key, m.headers, m.body))
                        over (order by m.log_offset rows unbounded preceding) as bytes
                from pgq.message_%s as m
                where m.partition_id = $1
                    and m.log_offset between $2 and $3
            ) as s
            where s.bytes <= $4
                or s.log_offset < $2 + $5',
            segment
        )
        into fit
        using partition_id, first_offset, last_offset, max_bytes, least_messages;
    end if;
    return fit;
end
$$;

comment on function pgq._fit(integer, bigint, bigint, bigint, bigint, integer) is
'The last of a range of messages, stored under one partition_id in one segment, that are together
not larger than max_bytes; and their size, or a bound for it where none is left out. least_messages:
this number is returned whatever the size.';
