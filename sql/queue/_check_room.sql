create function pgq._check_room(
    queue_id bigint, max_unfinished integer, new_jobs bigint, last_id bigint
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    begun_at timestamptz := clock_timestamp();
    -- A snapshot kept for the whole transaction shows the jobs as of its start.
    seen_at timestamptz := case
        when pgq._keeps_snapshot() then transaction_timestamp()
        else begun_at
    end;
    name text := 'pgq.room_' || queue_id;
    -- The last count of this session: max_unfinished, highest job_id with room, time of the count
    -- and its duration, both in microseconds. A hint: other sessions do not see it.
    seen numeric[] := string_to_array(nullif(current_setting(name, true), ''), ' ')::numeric[];
    age numeric;
    unfinished bigint;
begin
    -- At most as many jobs were added since as ids were drawn. Jobs put back under their old ids,
    -- or not committed at the time, are counted a second later.
    age := extract(epoch from seen_at)::numeric * 1000000 - seen[3];
    if seen[1] = max_unfinished
        and age >= 0
        and (
            age < 1000000 and last_id <= seen[2]
            -- Counting many jobs is slow: spend at most 1/20 of the time on it, and allow 1/20 more
            -- jobs until the next count.
            or max_unfinished > 10000
            and age < seen[4] * 20
            and last_id <= seen[2] + max_unfinished / 20
        )
    then
        return;
    end if;

    -- Start the index scan at the floors: below lie dead rows and expired jobs.
    select count(*)
    into unfinished
    from (
        select
        from pgq._read_floors(queue_id, '') as n
        cross join lateral unnest(n.floor_times, n.floor_ids) with ordinality
            as f (floor_time, floor_id, ordinal)
        cross join lateral (
            select
            from pgq.job as k
            where k.queue_id = _check_room.queue_id
                and k.priority = f.ordinal - 1
                and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
        ) as j
        limit max_unfinished::bigint + 1
    ) as c;

    if unfinished + new_jobs > max_unfinished then
        raise exception 'queue "%" is full',
            (select q.queue from pgq.queue as q where q.queue_id = _check_room.queue_id)
            using errcode = 'MQ010',
                detail = format(
                    'New jobs: %s; unfinished: %s%s; max_unfinished: %s.', new_jobs,
                    case when unfinished > max_unfinished then 'more than ' else '' end,
                    least(unfinished, max_unfinished), max_unfinished
                ),
                hint = 'Try again when workers have finished some, or raise max_unfinished with '
                    'pgq.alter_queue.';
    end if;

    perform set_config(
        name,
        concat_ws(
            ' ', max_unfinished, last_id + max_unfinished - unfinished - new_jobs,
            round(extract(epoch from seen_at)::numeric * 1000000),
            round(extract(epoch from clock_timestamp() - begun_at)::numeric * 1000000)
        ),
        false
    );
end
$$;

comment on function pgq._check_room(bigint, integer, bigint, bigint) is
'Raises MQ010 when a queue is too full for new_jobs more jobs, whose highest id is last_id.
Jobs that other transactions are adding are not counted. Where max_unfinished is above 10000, a
count is reused for 20 times as long as it took, and for 5% more jobs at most.';
