create function pgq.nack_offsets(
    topic text,
    consumer_group text,
    partition integer,
    lease_token uuid default null,
    first_offset bigint default null,
    last_offset bigint default null,
    delay interval default null,
    error text default null
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
    held_until timestamptz;
begin
    if (lease_token is null) = (first_offset is null) then
        raise exception '"lease_token", "first_offset": exactly one is needed'
            using errcode = '22023';
    end if;
    if (first_offset is null) <> (last_offset is null) or first_offset > last_offset then
        raise exception 'argument "last_offset" must be given with "first_offset", and not be below'
            using errcode = '22023';
    end if;
    if delay is not null then
        perform pgq._check_interval('delay', delay, true);
    end if;

    state := pgq._lock_group(topic collate "C", consumer_group, partition, false);
    if last_offset > state.last_offset then
        perform pgq._fail_out_of_range(
            topic collate "C", state.partition, last_offset, state.partition_id, state.last_offset,
            false
        );
    end if;

    if first_offset <> state.next_offset
        or (
            lease_token is distinct from state.lease_token
            and (lease_token is not null or state.leased_until > pgq._clock())
        )
    then
        perform pgq._keep_position(state);
        return false;
    end if;

    if state.max_attempts is not null then
        state.tried_offset := greatest(
            case when state.attempt > 0 then state.tried_offset end, last_offset,
            state.lease_last_offset
        );
        -- poll has counted the attempt, unless max_attempts was set only after it.
        state.attempt := case
            when lease_token is not null then greatest(state.attempt, 1)
            else coalesce(state.attempt, 0) + 1
        end;
    end if;
    state.last_error := coalesce(error, state.last_error);
    held_until := pgq._clock() + delay;

    -- If retention has removed the message, leave the handling to the next claim.
    if state.attempt >= state.max_attempts
        and state.next_offset >= pgq._first_available(state.partition_id)
    then
        perform pgq._give_up(topic collate "C", consumer_group, state, held_until);
    else
        perform pgq._append_position(state, state.next_offset, held_until, null);
    end if;
    perform pgq._announce_topic(topic);
    return true;
end
$$;

comment on function pgq.nack_offsets(text, text, integer, uuid, bigint, bigint, interval, text) is
'Gives back messages that failed; false when the caller does not hold them any more.
They are delivered again at once, or after delay; until then no message of this partition is
delivered to the group. error: the reason; group_lag shows it until the next attempt. In a group
with max_attempts this counts as a failed attempt: the same batch is delivered again; after
max_attempts failures its messages are delivered one by one; a message that fails max_attempts times
alone is published to the dead_letter_topic, and the group continues after it. For messages of poll
pass their lease_token; first commit the messages that were processed before the one that failed. A
rollback undoes consume and claim_offsets, so for their messages pass the first_offset and
last_offset that these returned, in a separate transaction. Returns false and changes nothing if the
token is not that of the latest poll, the position of the group is not first_offset, or a member
holds a lease. An expired lease remains valid as long as no other member got the partition.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 last_offset is above the newest message,
MQ007 unknown partition, 22004 a required argument is null, 22023 neither lease_token nor
first_offset, or both, or a bad last_offset or delay, 40001 above READ COMMITTED when another
transaction was first, or at any level when retention removes what is being read (try again).';
