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
    taken pgq._fetch_range;
    most bigint := coalesce(max_messages, 100);
    bytes bigint := coalesce(max_bytes, 67108864);
    read_rows bigint;
begin
    if bytes < 1 then
        perform pgq._check_count('max_bytes', bytes, 1, 9223372036854775807);
    end if;
    perform pgq._check_count('max_messages', most, 1, 1000000);
    perform pgq._check_group(topic collate "C", consumer_group, partition);

    foreach taken in array pgq._fetch_ranges(
        topic collate "C", consumer_group, partition, most, bytes, false
    ) loop
        return query
        select m.*
        from pgq._messages_across(
            taken.partition_id, taken.partition, taken.first_offset, taken.last_offset,
            taken.cut_short
        ) as m;
        get diagnostics read_rows = row_count;

        -- This call's snapshot is older than a truncation: it shows the ranges, but not their
        -- messages.
        if read_rows <> taken.last_offset - taken.first_offset + 1 then
            if taken.out_of_range = 'skip' then
                perform pgq._fail_truncated(topic collate "C");
            end if;
            perform pgq._fail_out_of_range(
                topic collate "C", taken.partition, taken.first_offset, taken.partition_id,
                taken.newest_offset, true
            );
        end if;
    end loop;
end
$$;

comment on function pgq.fetch(text, text, integer, integer, bigint) is
'Returns the next messages of a consumer group without moving its position.
Calling it twice returns the same messages; commit_offset moves the position. Without a partition it
returns messages of all partitions, one partition after the other, up to max_messages (1 to 1000000,
by default 100) and max_bytes; see consume for max_bytes and cut_short. Use it if you ensure that
each partition has one reader; poll ensures this by leases. Read-only, so it works on a standby.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 retention has removed the next message,
MQ007 unknown partition, 22004 a required argument is null, 22023 bad max_messages or max_bytes,
40001 when retention removes what is being read (try again).';
