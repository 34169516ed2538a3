create function pgq._open_keys(queue_id bigint, look_from timestamptz, max_wakeups integer)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    most integer;
    since xid8;
    horizon xid8;
    now_at timestamptz;
begin
    -- Lock before reading: this new statement has a snapshot newer than the lock.
    select q.max_leased_per_key, l.keys_xid, l.keys_horizon
    into most, since, horizon
    from pgq.queue as q
    inner join pgq.claim_lock as l on l.queue_id = q.queue_id
    where q.queue_id = _open_keys.queue_id;

    if most is null then
        return null;
    end if;

    now_at := pgq._clock();
    -- Count existing leases when the limit is switched on, and again once all transactions have
    -- ended that may not have known it.
    if since is not null and (horizon is null or pgq._has_ended(horizon)) then
        perform pgq._stamp_leased(queue_id, now_at);
        update pgq.claim_lock as l
        set
            keys_xid = case when horizon is null then since end,
            keys_horizon = case when horizon is null then pg_current_xact_id() end
        where l.queue_id = _open_keys.queue_id;
    end if;

    if look_from is null then
        perform pgq._begin_wakeups(queue_id);
    end if;

    perform pgq._unblock_keys(
        queue_id, most, coalesce(look_from, '-infinity'), now_at, now_at,
        least(max_wakeups, 1000) + 20
    );
    return most;
end
$$;

comment on function pgq._open_keys(bigint, timestamptz, integer) is
'Unblocks jobs of a queue with max_leased_per_key whose keys have free slots, before a claim looks
for jobs. Returns the limit; null: it was lifted. The caller holds the claim_lock.';
