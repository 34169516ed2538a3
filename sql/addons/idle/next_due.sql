create function pgq.next_due(queue text, label text default null)
returns timestamptz
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    target pgq.queue;
    floors pgq.queue_floor;
    found_at timestamptz;
begin
    perform pgq._check_label(label);
    perform pgq._check_access(null, queue collate "C", 'consume');

    select q.* into target from pgq.queue as q where q.queue = next_due.queue collate "C";

    if target.queue_id is null then
        perform pgq._fail_unknown_queue(queue collate "C");
    end if;
    if target.paused then
        return null;
    end if;

    select f.* into floors from pgq._read_floors(target.queue_id, '') as f;

    if floors.recorded_at > pgq._clock() then
        -- The clock was set back: floors do not count.
        floors.floor_times := array_fill('-infinity'::timestamptz, array[10]);
    end if;

    if label is not null then
        select min(n.visible_at)
        into found_at
        from unnest(floors.floor_times) with ordinality as f (floor_time, priority)
        cross join lateral (
            select k.visible_at
            from pgq.job as k
            where -k.queue_id = -target.queue_id
                and k.label = next_due.label collate "C"
                and k.priority = f.priority - 1
                and k.visible_at >= f.floor_time
            order by k.visible_at, k.job_id
            limit 1
        ) as n;
    else
        select least(min(n.visible_at), min(e.visible_at))
        into found_at
        from unnest(floors.floor_times) with ordinality as f (floor_time, priority)
        left join lateral (
            select k.visible_at
            from pgq.job as k
            where k.queue_id = target.queue_id
                and k.priority = f.priority - 1
                and k.visible_at >= f.floor_time
            order by k.visible_at, k.job_id
            limit 1
        ) as n on true
        left join lateral (
            select x.visible_at
            from pgq.job_extent as x
            where x.queue_id = target.queue_id and f.priority = 1
            order by x.visible_at
            limit 1
        ) as e on true;
    end if;

    return nullif(
        least(
            found_at,
            (
                select w.look_at
                from pgq.key_wakeup as w
                where w.queue_id = target.queue_id
                order by w.look_at
                limit 1
            )
        ),
        'infinity'
    );
end
$$;

comment on function pgq.next_due(text, text) is
'Returns when a claim of the queue may next find a job, if nothing is added until then.
For a worker whose claim found nothing: the time at which a delayed job is due, or the lease of
another worker ends. label: of the jobs with this label. A time that has passed: there are jobs that
are due, but a limit of the queue, or a transaction that is still open, holds them back: ask again
after a while. Null: there is nothing, or the queue is paused. A queue with notify tells by pgq_queue
when something is added, or is due earlier than it was.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 bad label.';
