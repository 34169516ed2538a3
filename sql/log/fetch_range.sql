create function pgq.fetch_range(
    topic text,
    partition integer,
    first_offset bigint,
    last_offset bigint
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
    source pgq.partition;
    read_rows bigint;
begin
    select p.*
    into source
    from pgq.partition as p
    where p.topic = fetch_range.topic collate "C"
        and p.partition = fetch_range.partition and (p.consumers is null or pgq._may(p.consumers));

    if source.partition_id is null or first_offset is null or last_offset is null then
        perform pgq._readable_partition(topic collate "C", partition, first_offset, last_offset);
    end if;

    if first_offset > last_offset then
        return;
    end if;

    if first_offset >= source.segment_first_offset then
        -- for the first 48 leaves: source.segment
        return query
        select {partition}, m.log_offset, m.published_at, m.key, m.headers, m.payload, m.body, false
        from pgq.message_{leaf} as m
        where m.partition_id = {source.stored_partition_id}
            and m.log_offset between {first_offset} and {last_offset}
        order by m.log_offset;
        -- end of the leaf
    else
        return query
        select m.*
        from pgq._messages_across(source.partition_id, partition, first_offset, last_offset) as m;
    end if;
    get diagnostics read_rows = row_count;

    -- Offsets have no gaps: report a short result as an error.
    if first_offset + read_rows <= last_offset then
        perform pgq._fail_incomplete(source, first_offset, last_offset);
    end if;
end
$$;

comment on function pgq.fetch_range(text, integer, bigint, bigint) is
'Returns the messages of a partition from first_offset to last_offset, both included, in order.
Read-only: no position moves, and it works on a standby. An empty range (first above last) returns
no rows.
Errors: MQ001 unknown topic, MQ004 a part of the range is not there: removed by retention, not yet
published, or not yet replicated (DETAIL has the available offsets), MQ007 unknown partition,
22004 a required argument is null, 40001 when retention removes what is being read (try again).';
