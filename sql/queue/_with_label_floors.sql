create function pgq._with_label_floors(plan pgq._claim_plan, label text)
returns pgq._claim_plan
language plpgsql stable parallel unsafe
as $$
declare
    raised pgq._claim_plan := plan;
begin
    -- For each priority the higher of the common floor and the label's.
    select
        coalesce(
            array_agg(greatest(g.floor_time, o.floor_time) order by o.ordinal), raised.floor_times
        ),
        coalesce(
            array_agg(
                case
                    when g.floor_time > o.floor_time then g.floor_id
                    when g.floor_time < o.floor_time then o.floor_id
                    else greatest(g.floor_id, o.floor_id)
                end
                order by o.ordinal
            ),
            raised.floor_ids
        ),
        min(f.recorded_at)
    into raised.floor_times, raised.floor_ids, raised.label_recorded_at
    from pgq._read_floors(raised.queue_id, '=' || label) as f
    cross join lateral unnest(f.floor_times, f.floor_ids)
        with ordinality as g (floor_time, floor_id, ordinal)
    inner join unnest(raised.floor_times, raised.floor_ids)
        with ordinality as o (floor_time, floor_id, ordinal)
        on o.ordinal = g.ordinal
    where f.epoch = raised.epoch;
    return raised;
end
$$;

comment on function pgq._with_label_floors(pgq._claim_plan, text) is
'Returns the plan of a claim with the floors of a label where these are higher.';
