create function pgq._lift_key_limit(queue_id bigint)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- Wait for open claims: none may block (park) a job after this.
    perform from pgq.claim_lock as l where l.queue_id = _lift_key_limit.queue_id for update;

    perform pgq._unpark_all(queue_id, null);

    delete from pgq.limited_key as k where k.queue_id = _lift_key_limit.queue_id;
    delete from pgq.ordered_note as n where n.queue_id = _lift_key_limit.queue_id;

    -- A blocked job was locked: a wake-up record makes cleanup look again.
    insert into pgq.ordered_note (queue_id, look_at, ordered_key, after_id, tries)
    select queue_id, pgq._clock(), '', -1, 0
    where pgq._has_parked(queue_id)
    on conflict do nothing;
end
$$;

comment on function pgq._lift_key_limit(bigint) is
'Unblocks all blocked (parked) jobs of a queue that has lost its max_leased_per_key; the caller has
changed the queue''s row.';
