create function pgq.fetch_packed(
    topic text,
    partition integer,
    first_offset bigint,
    last_offset bigint,
    first_partition_id bigint default null
)
returns setof pgq.packed_messages
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    source pgq.partition := pgq._readable_partition(
        topic collate "C", partition, first_offset, last_offset
    );
    extent record;
    next_offset bigint := first_offset;
    packed pgq.packed_messages;
begin
    perform pgq._keep_memory();

    if first_partition_id is not null
        and not exists (
            select
            from pgq.partition as p
            where p.topic_id = source.topic_id
                and p.partition = 0
                and p.partition_id = first_partition_id
        )
    then
        raise exception 'topic "%" is not the one that was planned to be read',
            topic collate "C"
            using errcode = 'MQ007',
                detail = 'It was dropped and created again since.',
                hint = 'Plan the reading again.';
    end if;

    <<extents>>
    for extent in
        select
            source.segment as segment, source.stored_partition_id as stored_partition_id,
            0::bigint as shift, null::timestamptz as published_at,
            first_offset as first_offset, last_offset as last_offset
        where first_offset >= source.segment_first_offset
        union all
        select
            r.segment, r.stored_partition_id, r.shift, r.published_at, r.first_offset, r.last_offset
        from pgq._extents(source.partition_id, first_offset, last_offset) as r
        where fetch_packed.first_offset < source.segment_first_offset
        order by first_offset
    loop
        exit when extent.first_offset > next_offset;
        for packed in
            execute pgq._pack_query(
                extent.segment, extent.stored_partition_id,
                extent.first_offset - extent.shift, extent.last_offset - extent.shift
            )
            using
                extent.stored_partition_id, extent.first_offset - extent.shift,
                extent.last_offset - extent.shift, extent.shift, extent.published_at
        loop
            exit extents when packed.first_offset <> next_offset;

            return next packed;
            next_offset := next_offset + packed.messages;
        end loop;
    end loop;

    -- Offsets have no gaps: report a short result as an error.
    if next_offset <= last_offset then
        perform pgq._fail_incomplete(source, first_offset, last_offset);
    end if;
end
$$;

comment on function pgq.fetch_packed(text, integer, bigint, bigint, bigint) is
'Returns the messages of a range of a partition in order, many of them in a row.
Both ends are included. A row has up to 1000 messages; with large messages it ends with the one that
reaches 1 MB, which may itself be much larger. It is for bulk readers such as Spark; ask for a few
thousand messages at a time, since all are collected before the first row is returned.
first_partition_id: the result of check_range for partition 0 when the read was planned; if the
topic was dropped and recreated since, the call raises an error.
Errors: MQ001 unknown topic, MQ004 a part of the range is not there: removed by retention, not yet
published, or not yet replicated (DETAIL has the available offsets), MQ007 unknown partition, or
another topic has the name by now, 22004 a required argument is null, 40001 when retention removes
what is being read (try again).';
