create function pgq._sweep_floors(objects int8multirange, turns integer)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
    now_at timestamptz := pgq._clock();
begin
    -- Locking and raising write to the write-ahead log: skip idle queues, except a few in turn.
    -- Claims raise the floors of their own queue, unless all run above READ COMMITTED.
    for target in
        select
            q.queue_id, q.queue, f.raised, f.below, f.labels,
            -- About 1000 labels per call, shared by the queues.
            greatest(10, 1 + 1000 / count(*) over ()) as max_labels
        from (
            select
                n.queue_id, n.labels,
                -- the clock was set back, or it is its turn
                n.recorded_at > now_at
                or row_number() over (order by n.recorded_at) <= turns as raised,
                exists (
                    select
                    from pgq._below_floor(n.queue_id, n.floor_times, n.floor_ids, now_at)
                ) as below
            from (
                select
                    o.queue_id, g.recorded_at, g.floor_times, g.floor_ids,
                    exists (
                        select
                        from pgq.queue_floor as h
                        where h.queue_id = o.queue_id and h.label > ''
                    ) as labels
                from pgq.queue as o
                cross join lateral pgq._read_floors(o.queue_id, '') as g
                where o.queue_id <@ objects
            ) as n
            where n.labels
                or exists (select from pgq.job as j where j.queue_id = n.queue_id)
                or exists (select from pgq.job_extent as r where r.queue_id = n.queue_id)
        ) as f
        inner join pgq.queue as q on q.queue_id = f.queue_id
        where f.raised or f.below or f.labels
    loop
        continue when not pgq._lock_floor(target.queue_id);

        -- Read the clock after the lock: a claim may have recorded a later time until then, and
        -- the raise would do nothing.
        if target.raised then
            perform pgq._raise_floor(target.queue_id, pgq._clock());
        end if;
        if target.below and pgq._lower_floor(target.queue_id, pgq._clock()) then
            return next row('floor lowered', target.queue, 1)::pgq.cleanup_action;
        end if;
        -- After the common floors: floors of labels count only together with them.
        if target.labels then
            perform pgq._sweep_labels(target.queue_id, target.max_labels, pgq._clock());
        end if;
    end loop;
end
$$;

comment on function pgq._sweep_floors(int8multirange, integer) is
'Raises the floors of these queues, of all where the clock was set back and else of up to `turns`
queues in turn, and lowers those above a claimable job; a step of cleanup.';
