create function pgq.extend_poll(
    topic text,
    consumer_group text,
    partition integer,
    lease_token uuid,
    lease interval default '30 seconds'
)
returns boolean
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    lease_length interval := coalesce(lease, '30 seconds');
    state pgq._group_state;
begin
    perform pgq._check_interval('lease', lease_length, false);
    perform pgq._check_lease_token(lease_token);

    state := pgq._lock_group(topic collate "C", consumer_group, partition, false);
    if lease_token is distinct from state.lease_token or state.leased_until <= pgq._clock() then
        perform pgq._keep_position(state);
        return false;
    end if;

    perform pgq._append_position(
        state, state.next_offset, greatest(state.leased_until, pgq._clock() + lease_length),
        state.lease_token
    );
    return true;
end
$$;

comment on function pgq.extend_poll(text, text, integer, uuid, interval) is
'Extends the lease of a partition, taken by poll; false when that lease has ended.
The new lease lasts for the given time from now (by default 30 seconds), or as long as before if
that is longer. False: the lease has expired, even if no other member got the partition, or was
never the caller''s; stop working on its messages.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ007 unknown partition, 22004 a required
argument is null, 22023 bad lease, 40001 above READ COMMITTED when another transaction was first
(try again).';
