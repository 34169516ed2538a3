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
    seen pgq.room_count;
    age interval;
    unfinished bigint;
begin
    select r.*
    into seen
    from pgq.room_count as r
    where r.queue_id = _check_room.queue_id and r.counted_at <= seen_at
    order by r.counted_at desc
    limit 1;

    -- At most as many jobs were added since as ids were drawn. Jobs put back under their old ids,
    -- or not committed at the time, are counted a second later.
    age := seen_at - seen.counted_at;
    if seen.max_unfinished = max_unfinished
        and (
            age < interval '1 second' and last_id <= seen.last_id
            -- Counting many jobs is slow: spend at most 1/20 of the time on it, and allow 1/20 more
            -- jobs until the next count.
            or max_unfinished > 10000
            and age < seen.took * 20
            and last_id <= seen.last_id + max_unfinished / 20
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

    -- Near the limit the next call has to count again, whatever stands here.
    unfinished := unfinished + new_jobs;
    if unfinished < max_unfinished - 20 or max_unfinished > 10000 then
        insert into pgq.room_count (queue_id, counted_at, took, max_unfinished, last_id)
        values (
            queue_id, seen_at, clock_timestamp() - begun_at, max_unfinished,
            last_id + max_unfinished - unfinished
        );
    end if;
end
$$;

comment on function pgq._check_room(bigint, integer, bigint, bigint) is
'Raises MQ010 when a queue is too full for new_jobs more jobs, whose highest id is last_id.
Jobs that other transactions are adding are not counted. Where max_unfinished is above 10000, a
count is reused for 20 times as long as it took, and for 5% more jobs at most.';
