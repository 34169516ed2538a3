create function pgq.commit_offset(
    topic text,
    consumer_group text,
    partition integer,
    committed_offset bigint,
    lease_token uuid default null
)
returns bigint
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
    perform pgq._check_count('committed_offset', committed_offset, 0, 9223372036854775806);

    state := pgq._lock_group(topic collate "C", consumer_group, partition, false);

    if committed_offset < state.next_offset then
        perform pgq._keep_position(state);
        return state.next_offset - 1;
    end if;

    -- An expired lease remains valid until another member takes the partition.
    if lease_token is distinct from state.lease_token
        and (lease_token is not null or state.leased_until > pgq._clock())
    then
        perform pgq._fail_lease_lost(topic collate "C", consumer_group, state.partition);
    end if;

    -- Check this after the lease: if a promotion lost the messages, the lease is lost too (MQ006).
    if committed_offset > state.last_offset then
        perform pgq._fail_out_of_range(
            topic collate "C", state.partition, committed_offset, state.partition_id,
            state.last_offset, false
        );
    end if;

    if lease_token is not null and committed_offset < state.lease_last_offset then
        perform pgq._append_position(
            state, committed_offset + 1, state.leased_until, state.lease_token
        );
    else
        perform pgq._append_position(state, committed_offset + 1, null, null);
    end if;

    return committed_offset;
end
$$;

comment on function pgq.commit_offset(text, text, integer, bigint, uuid) is
'Commits the offsets of a partition for a consumer group; MQ006 when another member has leased it.
committed_offset is the offset of the last message that the group has processed, 0 before the first.
The position, the offset that the group reads next, becomes committed_offset + 1. A lower offset
than the committed one changes nothing, so a repeated call is harmless; use seek to go back. Returns
the committed offset. With the lease token of poll, the lease ends when the last message that poll
returned is committed; a lower offset keeps the lease.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 committed_offset is above the newest
message, MQ006 the partition is leased to another member, or was since (it would get the messages
again), MQ007 unknown partition, 22004 a required argument is null, 22023 bad committed_offset,
40001 above READ COMMITTED when another transaction was first, or at any level when retention
removes what is being read (try again).';
