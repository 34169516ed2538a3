create function pgq.fetch(
    topic text,
    consumer_group text,
    max_messages integer default 100,
    partition integer default null,
    max_bytes bigint default 67108864
)
returns setof pgq.message_record
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
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
        where l.topic = "fetch".topic collate "C"
            and l.consumer_group = "fetch".consumer_group collate "C"
            and l.partition = coalesce("fetch".partition, l.partition)
        order by l.partition;
    source record;
    taken pgq._group_state;
    taken_to bigint;
    is_last boolean;
    room bigint := coalesce("fetch".max_messages, 100);
    last_offset bigint;
    first_available bigint;
    read_rows bigint;
    fit pgq._fit;
    bytes_left bigint := coalesce(max_bytes, 67108864);
    cut_short boolean := false;
begin
    if bytes_left < 1 then
        perform pgq._check_count('max_bytes', bytes_left, 1, 9223372036854775807);
    end if;
    perform pgq._check_count('max_messages', room, 1, 1000000);
    perform pgq._check_group("fetch".topic collate "C", "fetch".consumer_group, "fetch".partition);

    -- Without its name the cursor gets one that is free.
    sources := null;
    open sources;
    -- A partition is returned once it is known whether anything of the next one fits.
    loop
        is_last := cut_short or room = 0;
        if not is_last then
            fetch sources into source;
            is_last := not found;
        end if;
        if not is_last then
            if source.next_offset < source.segment_first_offset then
                first_available := pgq._first_available(source.partition_id);
                if source.next_offset < first_available then
                    if source.out_of_range = 'error' then
                        perform pgq._fail_out_of_range(
                            "fetch".topic collate "C", source.partition, source.next_offset,
                            source.partition_id, source.newest_offset, true
                        );
                    end if;
                    source.next_offset := first_available;
                end if;
            end if;

            last_offset := least(source.newest_offset, source.next_offset + room - 1);
            continue when last_offset < source.next_offset;

            if last_offset > source.next_offset
                or taken_to is not null
                or (source.partitions > 1 and room > 1 and "fetch".partition is null)
            then
                fit := pgq._fit_across(
                    source.partition_id, source.next_offset, last_offset, bytes_left,
                    case when taken_to is null then 1 else 0 end
                );
                bytes_left := bytes_left - fit.bytes;
                last_offset := fit.last_offset;
                cut_short := fit.cut_short;
            end if;
        end if;

        if taken_to is not null then
            return query
            select m.*
            from pgq._messages_across(
                taken.partition_id, taken.partition, taken.next_offset, taken_to,
                cut_short and (is_last or last_offset < source.next_offset)
            ) as m;
            get diagnostics read_rows = row_count;

            -- This call's snapshot is older than a truncation: it shows the ranges, but not their
            -- messages.
            if read_rows <> taken_to - taken.next_offset + 1 then
                if taken.out_of_range = 'skip' then
                    perform pgq._fail_truncated("fetch".topic collate "C");
                end if;
                perform pgq._fail_out_of_range(
                    "fetch".topic collate "C", taken.partition, taken.next_offset,
                    taken.partition_id, taken.last_offset, true
                );
            end if;
        end if;
        exit when is_last or last_offset < source.next_offset;

        taken.partition := source.partition;
        taken.partition_id := source.partition_id;
        taken.next_offset := source.next_offset;
        taken.last_offset := source.newest_offset;
        taken.out_of_range := source.out_of_range;
        taken_to := last_offset;
        room := room - (last_offset - source.next_offset + 1);
    end loop;
    close sources;
end
$$;

comment on function pgq.fetch(text, text, integer, integer, bigint) is
'Returns the next messages of a consumer group without moving its position.
Calling it twice returns the same messages; commit_offset moves the position. Without a partition it
returns those of all partitions one after the other, up to max_messages (1 to 1000000, by default
100) and max_bytes, as in consume; the last rows have cut_short then. Use it when the caller ensures
that each partition has one reader; poll ensures that by leases. Read-only, so it works on a
standby.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 retention has removed the next message,
MQ007 unknown partition, 22004 a required argument is null, 22023 bad max_messages or max_bytes,
40001 when retention removes what is being read (try again).';
