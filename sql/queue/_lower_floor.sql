create function pgq._lower_floor(queue_id bigint)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- Nothing may be written below a floor; should the clock have been set back, jobs may stand
    -- there. Those of labels may then be wrong as well.
    insert into pgq.queue_floor (
        queue_id,
        label,
        seq,
        epoch,
        floor_times,
        floor_ids,
        recorded_at,
        safe_at,
        candidate_at,
        candidate_xid,
        note_floor
    )
    select
        f.queue_id,
        '',
        f.seq + 1,
        f.epoch + 1,
        s.floor_times,
        s.floor_ids,
        f.recorded_at,
        f.safe_at,
        f.candidate_at,
        f.candidate_xid,
        f.note_floor
    from (
        select g.*
        from pgq.queue_floor as g
        where g.queue_id = _lower_floor.queue_id
            and g.label = ''
        order by g.seq desc
        limit 1
    ) as f
    cross join lateral (
        select
            array_agg(
                case when j.below then j.visible_at else p.floor_time end order by p.place
            ) as floor_times,
            array_agg(
                case when j.below then j.job_id else p.floor_id end order by p.place
            ) as floor_ids,
            bool_or(j.below) as below
        from unnest(f.floor_times, f.floor_ids)
            with ordinality as p (floor_time, floor_id, place)
        left join lateral (
            select
                n.visible_at,
                n.job_id,
                (n.visible_at, n.job_id) < (p.floor_time, p.floor_id) as below
            from (
                (
                    select k.visible_at, k.job_id
                    from pgq.job as k
                    where k.queue_id = f.queue_id
                        and k.priority = p.place - 1
                    order by k.visible_at, k.job_id
                    limit 1
                )
                union all
                (
                    select r.visible_at, r.run_id
                    from pgq.job_run as r
                    where p.place = 1
                        and r.queue_id = f.queue_id
                    order by r.visible_at, r.run_id
                    limit 1
                )
            ) as n
            order by n.visible_at, n.job_id
            limit 1
        ) as j on true
    ) as s
    where s.below
    on conflict do nothing;

    return found;
end
$$;

comment on function pgq._lower_floor(bigint) is
'Lowers the floors of a queue, whose floor lock the caller holds, to the first job below them, and
says whether there was one.';
