create function pgq._repair_groups(now_at timestamptz, max_rows bigint)
returns table (action text, target text, amount bigint)
language plpgsql volatile parallel unsafe
as $$
declare
    ahead record;
    state pgq._group_state;
begin
    for ahead in
        select a.*
        from pgq._ahead_groups(now_at) as a
        order by a.topic, a.consumer_group, a.partition
        limit max_rows
    loop
        -- SKIP LOCKED: a member is working on this partition.
        perform
        from pgq.group_partition as l
        where l.topic = ahead.topic
            and l.consumer_group = ahead.consumer_group
            and l.partition = ahead.partition
        for no key update skip locked;
        continue when not found;

        state := pgq._lock_group(ahead.topic, ahead.consumer_group, ahead.partition, false);
        continue when state.seq <> ahead.seq;

        perform pgq._append_position(
            state, state.next_offset, ahead.leased_until, state.lease_token
        );
        action := 'leases cut';
        target := format('%s/%s', ahead.topic, ahead.consumer_group);
        amount := 1;
        return next;
    end loop;
end
$$;

comment on function pgq._repair_groups(timestamptz, bigint) is
'Step of repair_clock: shortens leases that groups took while the clock was ahead, at most
max_rows.';
