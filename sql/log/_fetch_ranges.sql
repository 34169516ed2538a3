create function pgq._fetch_ranges(
    topic text, consumer_group text, max_messages bigint, partition integer, max_bytes bigint
)
returns pgq._fetch_range[]
language plpgsql stable parallel unsafe
as $$
declare
    source pgq._fetch_range;
    found pgq._fetch_range[] := '{}';
    fit pgq._fit;
    room bigint := max_messages;
    bytes_left bigint := max_bytes;
    last_offset bigint;
    first_available bigint;
    cut_short boolean := false;
begin
    for source in
        select
            p.partition, p.partition_id, q.next_offset, null,
            pgq._last_offset(p.stored_partition_id, p.segment, p.segment_first_offset),
            p.segment_first_offset, l.out_of_range, false
        from pgq.group_partition as l
        inner join pgq.partition as p on p.partition_id = l.partition_id
        cross join lateral pgq._current_position(l.group_id, l.partition) as q
        where l.topic = _fetch_ranges.topic
            and l.consumer_group = _fetch_ranges.consumer_group
            and l.partition = coalesce(_fetch_ranges.partition, l.partition)
        order by l.partition
    loop
        if source.first_offset < source.segment_first_offset then
            first_available := pgq._first_available(source.partition_id);
            if source.first_offset < first_available then
                if source.out_of_range = 'error' then
                    perform pgq._fail_out_of_range(
                        topic, source.partition, source.first_offset, source.partition_id,
                        source.newest_offset, true
                    );
                end if;
                source.first_offset := first_available;
            end if;
        end if;

        last_offset := least(source.newest_offset, source.first_offset + room - 1);
        continue when last_offset < source.first_offset;

        source.last_offset := last_offset;
        if last_offset > source.first_offset or found <> '{}' then
            fit := pgq._fit_across(
                source.partition_id, source.first_offset, last_offset, bytes_left,
                (found = '{}')::integer
            );
            cut_short := fit.last_offset < last_offset;
            source.last_offset := fit.last_offset;
            bytes_left := bytes_left - fit.bytes;
        end if;
        if source.last_offset >= source.first_offset then
            found := found || source;
        end if;
        room := room - (source.last_offset - source.first_offset + 1);
        exit when cut_short or room = 0;
    end loop;

    if cut_short then
        found[cardinality(found)].cut_short := true;
    end if;
    return found;
end
$$;

comment on function pgq._fetch_ranges(text, text, bigint, integer, bigint) is
'The messages that fetch returns, by partition. Raises MQ004.';
