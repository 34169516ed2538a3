create function pgq._begin_notes(queue_id bigint)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- Another claim is changing the floors: a later one does this.
    if not pgq._lock_floor(queue_id) then
        return;
    end if;

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
        f.label,
        f.seq + 1,
        f.epoch,
        f.floor_times,
        f.floor_ids,
        f.recorded_at,
        f.safe_at,
        f.candidate_at,
        f.candidate_xid,
        '-infinity'
    from (
        select g.*
        from pgq.queue_floor as g
        where g.queue_id = _begin_notes.queue_id and g.label = ''
        order by g.seq desc
        limit 1
    ) as f
    where f.note_floor is null
    on conflict do nothing;
end
$$;

comment on function pgq._begin_notes(bigint) is
'Adds a low-water mark for wake-up records (note_floor) to a queue created without a
max_leased_per_key.';
