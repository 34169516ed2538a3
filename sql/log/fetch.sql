create function pgq.fetch(
    topic text,
    consumer_group text,
    max_messages integer default 100,
    partition integer default null,
    max_bytes integer default 67108864
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
    source pgq._fetch_range;
    read_rows bigint;
begin
    perform pgq._check_count('max_messages', coalesce("fetch".max_messages, 100), 1, 1000000);
    perform pgq._check_count('max_bytes', "fetch".max_bytes, 1, 2147483647);
    perform pgq._check_group("fetch".topic collate "C", "fetch".consumer_group, "fetch".partition);

    foreach source in array pgq._fetch_ranges(
        "fetch".topic collate "C", "fetch".consumer_group, coalesce("fetch".max_messages, 100),
        "fetch".partition, "fetch".max_bytes
    ) loop
        return query
        select m.*
        from pgq._messages_across(
            source.partition_id, source.partition, source.first_offset, source.last_offset,
            source.cut_short
        ) as m;
        get diagnostics read_rows = row_count;

        -- This call's snapshot is older than a truncation: it shows the ranges, but not their
        -- messages.
        if read_rows <> source.last_offset - source.first_offset + 1 then
            if source.out_of_range = 'skip' then
                perform pgq._fail_truncated("fetch".topic collate "C");
            end if;
            perform pgq._fail_out_of_range(
                "fetch".topic collate "C", source.partition, source.first_offset,
                source.partition_id, source.newest_offset, true
            );
        end if;
    end loop;
end
$$;

comment on function pgq.fetch(text, text, integer, integer, integer) is
'Returns the next messages of a consumer group without moving its position.
Calling it twice returns the same messages; commit_offset moves the position. Without a partition it
returns those of all partitions one after the other, up to max_messages (1 to 1000000, by default
100) and max_bytes, as in consume; the last rows have cut_short then. Use it when the caller ensures that each partition has one reader; poll ensures that by
leases. Read-only, so it works on a standby.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 retention has removed the next message,
MQ007 unknown partition, 22004 a required argument is null, 22023 bad max_messages or max_bytes, 40001 when
retention removes what is being read (try again).';
