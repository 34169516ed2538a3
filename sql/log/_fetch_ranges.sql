create function pgq._fetch_ranges(
    topic text, consumer_group text, partition integer, max_messages bigint, max_bytes bigint,
    exact boolean
)
returns pgq._fetch_range[]
language plpgsql stable parallel unsafe
as $$
declare
    sources cursor for
        select
            p.partition, p.partitions, p.partition_id, p.segment_first_offset, l.out_of_range,
            q.next_offset,
            pgq._last_offset(p.stored_partition_id, p.segment, p.segment_first_offset)
                as newest_offset
        from pgq.group_partition as l
        inner join pgq.partition as p on p.partition_id = l.partition_id
        cross join lateral pgq._current_position(l.group_id, l.partition) as q
        where l.topic = _fetch_ranges.topic
            and l.consumer_group = _fetch_ranges.consumer_group collate "C"
            and l.partition = coalesce(_fetch_ranges.partition, l.partition)
        order by l.partition;
    first_available bigint;
    last_offset bigint;
    fit pgq._fit;
    ranges pgq._fetch_range[] := '{}';
    room bigint := max_messages;
    bytes_left bigint := max_bytes;
    cut_short boolean := false;
begin
    -- Without its name the cursor gets one that is free. A loop over it reads no row ahead.
    sources := null;
    for source in sources loop
        if source.next_offset < source.segment_first_offset then
            first_available := pgq._first_available(source.partition_id);
            if source.next_offset < first_available then
                if source.out_of_range = 'error' then
                    perform pgq._fail_out_of_range(
                        topic, source.partition, source.next_offset, source.partition_id,
                        source.newest_offset, true
                    );
                end if;
                source.next_offset := first_available;
            end if;
        end if;

        last_offset := least(source.newest_offset, source.next_offset + room - 1);
        continue when last_offset < source.next_offset;

        -- A single message is returned whatever its size.
        if last_offset > source.next_offset
            or (source.partitions > 1 and max_messages > 1 and partition is null)
        then
            fit := pgq._fit_across(
                source.partition_id, source.next_offset, last_offset, bytes_left,
                case when ranges = '{}' then 1 else 0 end, exact
            );
            if fit.last_offset is null then
                perform pgq._fail_truncated(topic);
            end if;
            bytes_left := bytes_left - fit.bytes;
            last_offset := fit.last_offset;
            cut_short := fit.cut_short;
        end if;

        if cut_short and ranges <> '{}' and not exact then
            -- A bound for the partitions before it may have left no room: then measure them.
            return pgq._fetch_ranges(
                topic, consumer_group, partition, max_messages, max_bytes, true
            );
        end if;
        if last_offset >= source.next_offset then
            ranges := ranges || row(
                source.partition, source.partition_id, source.next_offset, last_offset,
                source.newest_offset, source.out_of_range, cut_short
            )::pgq._fetch_range;
            room := room - (last_offset - source.next_offset + 1);
        elsif cut_short then
            ranges[cardinality(ranges)].cut_short := true;
        end if;
        exit when cut_short or room = 0;
    end loop;

    return ranges;
end
$$;

comment on function pgq._fetch_ranges(text, text, integer, bigint, bigint, boolean) is
'The ranges that fetch returns: one for each partition that has messages, until one of the limits is
reached. exact: whether it measures messages also where a bound is enough.';
