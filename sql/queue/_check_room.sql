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

    -- Up to 1/20 of the limit may be added before the jobs are counted again. Jobs put back under
    -- their old ids, or not committed at the time, are counted then.
    age := seen_at - seen.counted_at;
    if seen.max_unfinished = max_unfinished
        and last_id <= seen.last_id
        and (
            age < interval '1 second'
            -- Counting many jobs is slow: spend at most 1/20 of the time on it.
            or max_unfinished > 10000 and age < seen.took * 20
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

    -- Near the limit the next call has to count again, whatever stands here. Elsewhere 50 rows in a
    -- second are enough: the ids may be those of other queues.
    unfinished := unfinished + new_jobs;
    if (unfinished < max_unfinished - 20 or max_unfinished > 10000)
        and (seen.max_unfinished = max_unfinished and age < interval '20 ms') is not true
    then
        insert into pgq.room_count (queue_id, counted_at, took, max_unfinished, last_id)
        values (
            queue_id, seen_at, clock_timestamp() - begun_at, max_unfinished,
            last_id + case
                when max_unfinished > 10000 then max_unfinished / 20
                else least(max_unfinished / 20, max_unfinished - unfinished)
            end
        );
    end if;
end
$$;

comment on function pgq._check_room(bigint, integer, bigint, bigint) is
'Raises MQ010 when a queue is too full for new_jobs more jobs, whose highest id is last_id.
Jobs that other transactions are adding are not counted. A count is reused for a second, above 10000
for 20 times as long as it took, and until 5% of max_unfinished more jobs were added to any queue.';
