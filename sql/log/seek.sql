create function pgq.seek(
    topic text,
    consumer_group text,
    partition integer default null,
    log_offset bigint default null,
    published_at timestamptz default null,
    start text default null
)
returns setof pgq.seek_result
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    chosen integer;
    state pgq._group_state;
    moved pgq.seek_result;
    first_available bigint;
begin
    if num_nonnulls(log_offset, published_at, start) <> 1 then
        raise exception '"log_offset", "published_at", "start": exactly one is needed'
            using errcode = '22023';
    end if;
    if log_offset is not null and partition is null then
        raise exception 'argument "partition" must be given with "log_offset"'
            using errcode = '22023';
    end if;
    if start collate "C" not in ('earliest', 'latest') then
        raise exception 'argument "start" must be earliest or latest' using errcode = '22023';
    end if;
    -- Race: the topic may be dropped or recreated between the check and the read of its partitions.
    -- Then look again.
    loop
        if pgq._check_group(topic collate "C", consumer_group, partition)
            and start collate "C" = 'latest'
        then
            -- Assign offsets to the messages staged so far, so that the group skips them.
            perform from pgq._assign_all(topic collate "C", partition, null);
        end if;

        -- Deadlock: lock the partitions in ascending order, as everywhere.
        for chosen in
            select p.partition
            from pgq.topic as t
            inner join pgq.partition as p on p.topic_id = t.topic_id
            where t.topic = seek.topic collate "C"
                and p.partition = coalesce(seek.partition, p.partition)
            order by p.partition
        loop
            state := pgq._lock_group(topic collate "C", consumer_group, chosen, false);
            first_available := pgq._first_available(state.partition_id);
            moved.partition := chosen;
            moved.position := case
                when log_offset is not null then log_offset
                when start collate "C" = 'earliest' then first_available
                when start collate "C" = 'latest' then state.last_offset + 1
                else pgq._offset_at(
                    state.partition_id, published_at, first_available, state.last_offset
                )
            end;

            if moved.position not between first_available and state.last_offset + 1 then
                perform pgq._fail_out_of_range(
                    topic collate "C", chosen, log_offset, state.partition_id, state.last_offset,
                    false
                );
            end if;

            state.attempt := null;
            state.last_error := null;
            state.tried_offset := null;
            state.single_offset := null;
            perform pgq._append_position(state, moved.position, null, null);
            return next moved;
        end loop;
        exit when found;
    end loop;

    perform pgq._announce_topic(topic);
end
$$;

comment on function pgq.seek(text, text, integer, bigint, timestamptz, text) is
'Moves the position of a consumer group back or ahead, and returns it: a row per partition.
The position is the offset that the group reads next. Pass one of: log_offset (that message is read
next; needs a partition), published_at (the first message published at that time or later is read
next), start (earliest; or latest, see create_group). Without a partition it moves the position in
all partitions. A member that holds a lease loses it. Attempts start at 1 again.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 there is no such offset, MQ007 unknown
partition, 22004 a required argument is null, 22023 not exactly one target, or a bad one, 40001
above READ COMMITTED when another transaction was first, or at any level when retention removes
what is being read (try again).';
