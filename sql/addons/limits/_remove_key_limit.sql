create function pgq._remove_key_limit(queue_id bigint)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- Wait for open claims: none may block (park) a job after this.
    perform from pgq.claim_lock as l where l.queue_id = _remove_key_limit.queue_id for update;

    perform pgq._unblock_all(queue_id, null);

    delete from pgq.limited_key as k where k.queue_id = _remove_key_limit.queue_id;
    delete from pgq.key_wakeup as n where n.queue_id = _remove_key_limit.queue_id;

    -- A blocked job was locked: a wake-up record makes cleanup look again.
    insert into pgq.key_wakeup (queue_id, look_at, ordered_key, after_id, tries)
    select queue_id, pgq._clock(), '', -1, 0
    where pgq._has_blocked(queue_id)
    on conflict do nothing;
end
$$;

comment on function pgq._remove_key_limit(bigint) is
'Unblocks all blocked jobs of a queue that has lost its max_leased_per_key; the caller has
changed the queue''s row.';
