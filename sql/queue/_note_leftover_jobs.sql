create function pgq._note_leftover_jobs(
    queue_id bigint,
    partition_id bigint,
    retention_before interval,
    retention interval
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if _note_leftover_jobs.retention is null then
        -- Kept for ever again.
        delete from pgq.leftover as o
        where o.queue_id = _note_leftover_jobs.queue_id;
        return;
    end if;

    if _note_leftover_jobs.retention_before is not null then
        -- What it stored without one was noted when it got the one before.
        update pgq.leftover as o
        set
            remove_at = least(o.remove_at, pgq._clock() + _note_leftover_jobs.retention),
            noted_xid = pg_current_xact_id(),
            horizon = null
        where o.queue_id = _note_leftover_jobs.queue_id;
        return;
    end if;

    insert into pgq.leftover (
        partition_id, segment, first_offset, last_offset, queue_id, remove_at, noted_xid
    )
    select
        _note_leftover_jobs.partition_id,
        g.segment,
        0,
        9223372036854775807,
        _note_leftover_jobs.queue_id,
        pgq._clock() + _note_leftover_jobs.retention,
        pg_current_xact_id()
    from pgq.segment as g
    inner join pgq.storage_class as c on c.storage_class_id = g.storage_class_id
    where c.retention is null
        and c.owner_id is null
    on conflict (partition_id, segment, first_offset) do update
    set
        remove_at = least(leftover.remove_at, excluded.remove_at),
        noted_xid = excluded.noted_xid,
        horizon = null;
end
$$;

comment on function pgq._note_leftover_jobs(bigint, bigint, interval, interval) is
'Notes that a queue that has a retention now, or was dropped, may have stored jobs without one, to
be removed after that time; or, without a retention, takes such notes back.';
