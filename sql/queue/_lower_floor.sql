create function pgq._lower_floor(queue_id bigint, moment timestamptz)
returns boolean
language plpgsql volatile parallel unsafe
as $$
begin
    -- Jobs below a floor exist only if the clock was set back. The new epoch invalidates the floors
    -- of labels, which may be wrong as well.
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
        where g.queue_id = _lower_floor.queue_id and g.label = ''
        order by g.seq desc
        limit 1
    ) as f
    cross join lateral (
        select
            array_agg(coalesce(b.visible_at, p.floor_time) order by p.place) as floor_times,
            array_agg(coalesce(b.job_id, p.floor_id) order by p.place) as floor_ids,
            count(b.job_id) as below
        from unnest(f.floor_times, f.floor_ids) with ordinality as p (floor_time, floor_id, place)
        left join pgq._below_floor(
            f.queue_id, f.floor_times, f.floor_ids, moment
        ) as b on b.place = p.place
    ) as s
    where s.below > 0
    on conflict do nothing;

    return found;
end
$$;

comment on function pgq._lower_floor(bigint, timestamptz) is
'Lowers the floors of a queue to the first claimable job below them; false: there is none.
The caller holds the floor lock.';
