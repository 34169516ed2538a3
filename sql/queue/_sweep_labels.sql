create function pgq._sweep_labels(queue_id bigint, max_labels bigint, now_at timestamptz)
returns void
language plpgsql volatile parallel unsafe
set jit = off
set enable_sort = off
as $$
declare
    common pgq.queue_floor;
    state pgq.queue_floor;
    before text collate "C";
    swept text collate "C";
begin
    select f.* into common from pgq._read_floors(queue_id, '') as f;

    select l.swept_label
    into before
    from pgq.queue_floor_lock as l
    where l.queue_id = _sweep_labels.queue_id;

    swept := before;
    for number in 1 .. max_labels loop
        -- The next label that has floors, in descending order: the newest row of a label comes
        -- first, before dead index entries of its older rows.
        select f.*
        into state
        from pgq.queue_floor as f
        where f.queue_id = _sweep_labels.queue_id
            and f.label > ''
            and f.label < coalesce('=' || swept, '>')
        order by f.label desc, f.seq desc
        limit 1;
        swept := substring(state.label from 2);
        exit when swept is null;

        -- Delete floors that were not used for a day, that are of a former epoch, or that have a
        -- claimable job below them (the clock was set back): the label then starts from the common
        -- floors.
        delete from pgq.queue_floor as f
        where f.queue_id = _sweep_labels.queue_id
            and f.label = state.label
            and f.seq = state.seq
            and (
                f.recorded_at < now_at - interval '1 day'
                or f.epoch <> common.epoch
                or exists (
                    select
                    from unnest(f.floor_times, f.floor_ids)
                        with ordinality as p (floor_time, floor_id, ordinal)
                    cross join lateral (
                        select k.expires_at
                        from pgq.job as k
                        where -k.queue_id = -_sweep_labels.queue_id
                            and k.label = swept
                            and k.priority = p.ordinal - 1
                            and (k.visible_at, k.job_id) < (p.floor_time, p.floor_id)
                        order by k.visible_at, k.job_id
                        limit 10000
                    ) as j
                    -- Expired jobs may lie below a floor.
                    where j.expires_at is null or j.expires_at > now_at
                )
            );
    end loop;

    update pgq.queue_floor_lock as l
    set swept_label = swept
    where l.queue_id = _sweep_labels.queue_id and l.swept_label is distinct from swept;
end
$$;

comment on function pgq._sweep_labels(bigint, bigint, timestamptz) is
'Removes floors of labels that are not needed any more, for up to max_labels labels, starting where
the last call ended; a step of cleanup.';
