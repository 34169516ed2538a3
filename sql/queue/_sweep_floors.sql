create function pgq._sweep_floors(turns integer)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
    moment timestamptz := pgq._clock();
begin
    -- A lock and a raise are written to the log of the server: idle queues get neither, but for a
    -- few in turn. Claims raise the floor of their queue, unless all are above READ COMMITTED.
    for target in
        select
            q.queue_id, q.queue, f.raised, f.below, f.labels,
            -- The queues share the number of labels that one call looks at.
            greatest(10, 1 + 1000 / count(*) over ()) as max_labels
        from (
            select
                n.queue_id, n.labels,
                -- the clock was set back, or it is its turn
                n.recorded_at > moment
                or row_number() over (order by n.recorded_at) <= _sweep_floors.turns as raised,
                exists (
                    select
                    from pgq._below_floor(n.queue_id, n.floor_times, n.floor_ids, moment)
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
                cross join lateral (
                    select h.recorded_at, h.floor_times, h.floor_ids
                    from pgq.queue_floor as h
                    where h.queue_id = o.queue_id and h.label = ''
                    order by h.seq desc
                    limit 1
                ) as g
            ) as n
            where n.labels
                or exists (select from pgq.job as j where j.queue_id = n.queue_id)
                or exists (select from pgq.job_run as r where r.queue_id = n.queue_id)
        ) as f
        inner join pgq.queue as q on q.queue_id = f.queue_id
        where f.raised or f.below or f.labels
    loop
        continue when not pgq._lock_floor(target.queue_id);

        -- The clock is read behind the lock: no claim that begins later is here first.
        if target.raised then
            perform pgq._raise_floor(target.queue_id, pgq._clock());
        end if;
        if target.below and pgq._lower_floor(target.queue_id, pgq._clock()) then
            return next row('floor lowered', target.queue, 1)::pgq.cleanup_action;
        end if;
        -- Behind the others, without which those of labels do not count.
        if target.labels then
            perform pgq._sweep_labels(target.queue_id, target.max_labels, pgq._clock());
        end if;
    end loop;
end
$$;

comment on function pgq._sweep_floors(integer) is
'The part of cleanup that raises the floors of queues, those of all where the clock was set back and
else of so many in turn, and lowers those above a job that no claim would find.';
