create function pgq._unblock_keys(
    queue_id bigint, max_leased_per_key integer, look_from timestamptz, look_until timestamptz,
    now_at timestamptz, max_wakeups integer
)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    wakeup pgq.key_wakeup;
    processed integer := 0;
begin
    for wakeup in
        select n.*
        from pgq.key_wakeup as n
        where n.queue_id = _unblock_keys.queue_id and n.look_at between look_from and look_until
        order by n.look_at
        limit max_wakeups
        for update skip locked
    loop
        delete from pgq.key_wakeup as n
        where n.queue_id = wakeup.queue_id
            and n.look_at = wakeup.look_at
            and n.ordered_key = wakeup.ordered_key
            and n.after_id = wakeup.after_id;
        processed := processed + 1;

        perform pgq._unblock_key(wakeup, max_leased_per_key, now_at);
    end loop;

    return processed;
end
$$;

comment on function pgq._unblock_keys(
    bigint, integer, timestamptz, timestamptz, timestamptz, integer
) is
'Processes up to max_wakeups wake-up records with a look_at from look_from to look_until: unblocks
as many blocked jobs of their keys as may be leased now. Returns how many records it processed. The
caller holds the claim_lock of the queue.';
