create function pgq._lift_key_limit(queue_id bigint)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- It waits for claims that are under way: none parks a job behind this.
    perform from pgq.claim_lock as l where l.queue_id = _lift_key_limit.queue_id for update;

    perform pgq._unpark_all(queue_id, null);

    delete from pgq.limited_key as k where k.queue_id = _lift_key_limit.queue_id;
    delete from pgq.ordered_note as n where n.queue_id = _lift_key_limit.queue_id;

    -- Somebody has one locked: cleanup looks again.
    insert into pgq.ordered_note (queue_id, look_at, ordered_key, after_id, tries)
    select _lift_key_limit.queue_id, pgq._clock(), '', -1, 0
    where exists (
        select
        from generate_series(0, 9) as p (priority)
        cross join lateral (
            select
            from pgq.job as j
            where j.queue_id = _lift_key_limit.queue_id
                and j.priority = p.priority
                and j.visible_at = 'infinity'
                and j.due_at is not null
            limit 1
        ) as k
    )
    on conflict do nothing;
end
$$;

comment on function pgq._lift_key_limit(bigint) is
'Brings up all parked jobs of a queue, whose row the caller has changed: it has no
max_leased_per_key any more.';
