create function pgq._sweep_labels(queue_id bigint, moment timestamptz)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- Nobody has claimed by these for a day.
    delete from pgq.queue_floor as f
    where f.queue_id = _sweep_labels.queue_id
        and f.label <> ''
        and f.recorded_at < _sweep_labels.moment - interval '1 day';

    -- Should the clock have been set back, a job may stand below the floor of its label, which then
    -- starts again.
    delete from pgq.queue_floor as f
    where f.queue_id = _sweep_labels.queue_id
        and f.label in (
            select g.label
            from (
                select distinct on (h.label) h.label, h.floor_times, h.floor_ids
                from pgq.queue_floor as h
                where h.queue_id = _sweep_labels.queue_id
                    and h.label <> ''
                order by h.label, h.seq desc
            ) as g
            cross join lateral unnest(g.floor_times, g.floor_ids)
                with ordinality as p (floor_time, floor_id, place)
            cross join lateral (
                select k.visible_at, k.job_id
                from pgq.job as k
                where -k.queue_id = -_sweep_labels.queue_id
                    and k.label = substring(g.label from 2)
                    and k.priority = p.place - 1
                order by k.visible_at, k.job_id
                limit 1
            ) as j
            where (j.visible_at, j.job_id) < (p.floor_time, p.floor_id)
        );

    -- The labels that there are, found one after the other.
    perform pgq._raise_label_floor(_sweep_labels.queue_id, l.label, _sweep_labels.moment)
    from (
        with recursive present as (
            (
                select j.label
                from pgq.job as j
                where -j.queue_id = -_sweep_labels.queue_id
                    and j.label is not null
                order by j.label
                limit 1
            )
            union all
            select (
                select j.label
                from pgq.job as j
                where -j.queue_id = -_sweep_labels.queue_id
                    and j.label > p.label
                order by j.label
                limit 1
            )
            from present as p
            where p.label is not null
        )

        select p.label
        from present as p
        where p.label is not null
        limit 1000
    ) as l;
end
$$;

comment on function pgq._sweep_labels(bigint, timestamptz) is
'The part of cleanup that raises and lowers the floors of claims by label.';
