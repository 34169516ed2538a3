create function pgq._sweep_labels(queue_id bigint, max_labels bigint, moment timestamptz)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    before text collate "C";
    swept text collate "C";
    stranded boolean;
begin
    select l.swept_label
    into before
    from pgq.queue_floor_lock as l
    where l.queue_id = _sweep_labels.queue_id;

    swept := before;
    for number in 1 .. _sweep_labels.max_labels loop
        -- The next label that has floors or jobs. Behind a label comes first what begins with it
        -- and goes on with the lowest character.
        swept := least(
            (
                select substring(f.label from 2)
                from pgq.queue_floor as f
                where f.queue_id = _sweep_labels.queue_id
                    and f.label >= coalesce('=' || swept || E'\x01', '=')
                order by f.label
                limit 1
            ),
            (
                select j.label
                from pgq.job as j
                where -j.queue_id = -_sweep_labels.queue_id
                    and j.label >= coalesce(swept || E'\x01', '')
                order by j.label
                limit 1
            )
        );
        exit when swept is null;

        -- Should the clock have been set back, a job may stand below; they then start again.
        stranded := exists (
            select
            from (
                select g.floor_times, g.floor_ids
                from pgq.queue_floor as g
                where g.queue_id = _sweep_labels.queue_id
                    and g.label = '=' || swept
                order by g.seq desc
                limit 1
            ) as f
            cross join lateral unnest(f.floor_times, f.floor_ids)
                with ordinality as p (floor_time, floor_id, place)
            cross join lateral (
                select k.visible_at, k.job_id
                from pgq.job as k
                where -k.queue_id = -_sweep_labels.queue_id
                    and k.label = swept
                    and k.priority = p.place - 1
                order by k.visible_at, k.job_id
                limit 1
            ) as j
            where (j.visible_at, j.job_id) < (p.floor_time, p.floor_id)
        );

        -- Or nobody has claimed by them for a day.
        delete from pgq.queue_floor as f
        where f.queue_id = _sweep_labels.queue_id
            and f.label = '=' || swept
            and (stranded or f.recorded_at < _sweep_labels.moment - interval '1 day');

        if exists (
            select
            from pgq.job as j
            where -j.queue_id = -_sweep_labels.queue_id
                and j.label = swept
        )
        then
            perform pgq._raise_label_floor(_sweep_labels.queue_id, swept, _sweep_labels.moment);
        end if;
    end loop;

    update pgq.queue_floor_lock as l
    set swept_label = swept
    where l.queue_id = _sweep_labels.queue_id
        and l.swept_label is distinct from swept;
end
$$;

comment on function pgq._sweep_labels(bigint, bigint, timestamptz) is
'The part of cleanup that raises and lowers the floors of claims by label: of so many labels, from
where the last call ended.';
