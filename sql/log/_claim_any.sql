create function pgq._claim_any(
    topic text, consumer_group text, max_messages integer, partition integer, lease interval,
    hint_first boolean, max_bytes bigint
)
returns pgq._claim_state
language plpgsql volatile parallel unsafe
as $$
declare
    ran_out constant text := 'the lease of the last attempt ran out';
    wanted integer := coalesce(max_messages, 100);
    state pgq._group_state;
    claimed pgq._claim_state;
    first_available bigint;
    failed_to bigint;
    fit pgq._fit;
    hint integer;
begin
    perform pgq._check_count('max_messages', wanted, 1, 1000000);
    perform pgq._check_count('max_bytes', max_bytes, 1, 9223372036854775807);

    loop
        hint := case when hint_first then pgq._partition_hint(topic, consumer_group) end;
        state := pgq._lock_group(topic, consumer_group, coalesce(partition, hint), true);
        if state.group_id is null and hint is not null then
            hint := null;
            state := pgq._lock_group(topic, consumer_group, null, true);
        end if;
        if state.group_id is null then
            return null;
        end if;

        claimed.first_offset := state.next_offset;
        claimed.segment := state.segment;
        failed_to := null;
        if state.next_offset < state.segment_first_offset then
            claimed.segment := null;
            first_available := pgq._first_available(state.partition_id);
            if state.next_offset < first_available then
                if state.out_of_range = 'error' then
                    perform pgq._fail_out_of_range(
                        topic, state.partition, state.next_offset, state.partition_id,
                        state.last_offset, true
                    );
                end if;
                claimed.first_offset := first_available;
                if first_available > state.last_offset then
                    -- Retention has removed everything here. Advance the position, or each scan
                    -- would select this partition again.
                    perform pgq._append_position(state, first_available, null, null);
                    continue;
                end if;
            end if;
        end if;

        if state.max_attempts is not null and claimed.first_offset = state.next_offset then
            -- A token is still set: the previous member's lease expired without a nack, so its
            -- attempt failed.
            if state.lease_token is not null then
                if right(state.last_error, length(ran_out)) is distinct from ran_out then
                    state.last_error := concat_ws(E'\n', state.last_error, ran_out);
                end if;
                -- The attempt was not counted if the group had no max_attempts at that time.
                state.attempt := greatest(state.attempt, 1);
                state.tried_offset := greatest(state.tried_offset, state.lease_last_offset);
            end if;
            if state.attempt >= state.max_attempts then
                perform pgq._give_up(topic, consumer_group, state, null);
                continue;
            end if;
            -- Redeliver a failed batch with the same messages, even if more were published since.
            if state.attempt > 0 then
                failed_to := state.tried_offset;
            end if;
            if lease is not null then
                state.attempt := coalesce(state.attempt, 0) + 1;
            end if;
        end if;

        claimed.partition := state.partition;
        claimed.partition_id := state.partition_id;
        claimed.stored_partition_id := state.stored_partition_id;
        claimed.last_offset := case
            when state.max_attempts is not null and claimed.first_offset <= state.single_offset
                then claimed.first_offset
            else least(state.last_offset, claimed.first_offset + wanted - 1, failed_to)
        end;
        claimed.cut_short := false;
        if claimed.last_offset > claimed.first_offset then
            fit := pgq._fit_across(
                state.partition_id, claimed.first_offset, claimed.last_offset, max_bytes
            );
            -- Cleanup may have truncated the segment since this statement's snapshot was taken.
            if fit.last_offset is null then
                perform pgq._fail_truncated(topic);
            end if;
            claimed.cut_short := fit.cut_short;
            claimed.last_offset := fit.last_offset;
        end if;
        if lease is not null then
            claimed.lease_token := gen_random_uuid();
            claimed.leased_until := pgq._clock() + lease;
            claimed.attempt := case
                when state.max_attempts is null then null
                when claimed.first_offset = state.next_offset then state.attempt
                else 1
            end;
            state.lease_last_offset := claimed.last_offset;
            state.tried_offset := greatest(failed_to, claimed.last_offset);
        end if;

        if pgq._append_position(
            state,
            case when lease is null then claimed.last_offset + 1 else claimed.first_offset end,
            claimed.leased_until, claimed.lease_token
        ) then
            -- Store the hint only after a scan of all partitions, and only where the next claim can
            -- use it. Not for a deferred topic: staged messages of other partitions would wait for
            -- their offsets.
            if partition is null
                and hint is null
                and claimed.segment is not null
                and (state.max_attempts is null or hint_first is not null)
            then
                perform
                    set_config('pgq.found_in', pgq._found_in(state.group_id), false),
                    set_config('pgq.found_at', p.hash_position::text, false)
                from pgq.partition as p
                where p.partition_id = state.partition_id and not p.deferred;
            end if;
            return claimed;
        end if;
    end loop;
end
$$;

comment on function pgq._claim_any(text, text, integer, integer, interval, boolean, bigint) is
'Claims messages where the fast path of _claim cannot: in other partitions, older segments or a
named partition, and in groups that count attempts.
hint_first: whether it looks at the partitions of _partition_hint before it scans all; null: it
always scans all. max_bytes: see _claim.';
