create function pgq.release_poll(
    topic text,
    consumer_group text,
    partition integer,
    lease_token uuid
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
    state pgq._group_state;
begin
    perform pgq._check_lease_token(lease_token);

    state := pgq._lock_group(topic collate "C", consumer_group, partition, false);
    if lease_token is distinct from state.lease_token then
        perform pgq._keep_position(state);
        return false;
    end if;

    state.attempt := state.attempt - 1;
    perform pgq._append_position(state, state.next_offset, null, null);
    perform pgq._announce_topic(topic);
    return true;
end
$$;

comment on function pgq.release_poll(text, text, integer, uuid) is
'Gives back a partition that poll leased; false when the caller does not hold it any more.
Messages that were not committed are available to other members at once, and this attempt is not
counted; for messages that failed, use nack_offsets. An expired lease remains valid as long as no
other member got the partition.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ007 unknown partition, 22004 a required
argument is null, 40001 above READ COMMITTED when another transaction was first (try again).';
