create function pgq._process_wakeups(
    queue_id bigint, wakeup_floor timestamptz, now_at timestamptz, max_wakeups integer
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
        where n.queue_id = _process_wakeups.queue_id and n.look_at between wakeup_floor and now_at
        order by n.look_at
        limit max_wakeups
        for update skip locked
    loop
        delete from pgq.key_wakeup as n
        where n.queue_id = wakeup.queue_id
            and n.look_at = wakeup.look_at
            and n.ordered_key = wakeup.ordered_key
            and n.after_id = wakeup.after_id;

        if pgq._let_next(wakeup.queue_id, wakeup.ordered_key, wakeup.after_id) then
            processed := processed + 1;
            continue;
        end if;

        -- Back off, from 10 ms to 1 s: a key held up by an open transaction must not delay the
        -- others.
        insert into pgq.key_wakeup (queue_id, look_at, ordered_key, after_id, tries)
        values (
            wakeup.queue_id,
            pgq._clock() + least(
                interval '10 milliseconds' * 2 ^ wakeup.tries, interval '1 second'
            ),
            wakeup.ordered_key, wakeup.after_id, least(wakeup.tries + 1, 10)
        )
        on conflict do nothing;
    end loop;

    return processed;
end
$$;

comment on function pgq._process_wakeups(bigint, timestamptz, timestamptz, integer) is
'Processes up to max_wakeups wake-up records of an ordered queue: unblocks the next job of each key.
Returns how many were settled; the others are tried again later.';
