create function pgq._claim(
    topic text,
    consumer_group text,
    max_messages integer,
    partition integer,
    lease interval
)
returns pgq._claim_state
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    state pgq._group_state;
    claimed pgq._claim_state;
    first_available bigint;
begin
    if (_claim.max_messages between 1 and 1000000) is not true then
        perform pgq._check_count('max_messages', _claim.max_messages, 1, 1000000);
    end if;

    loop
        state := pgq._lock_group(_claim.topic, _claim.consumer_group, _claim.partition, true);
        if state.group_id is null then
            return null;
        end if;

        claimed.first_offset := state.next_offset;
        claimed.segment := state.segment;
        if state.next_offset < state.segment_first_offset then
            claimed.segment := null;
            first_available := pgq._first_available(state.partition_id);
            if state.next_offset < first_available then
                if state.out_of_range = 'error' then
                    perform pgq._fail_out_of_range(
                        _claim.topic, state.partition, state.next_offset, first_available, state.tip
                    );
                end if;
                claimed.first_offset := first_available;
                if first_available > state.tip then
                    -- Retention has left nothing here. Note that, or this partition would look
                    -- like the one to read for ever.
                    perform pgq._append_position(state, first_available, null, null);
                    continue;
                end if;
            end if;
        end if;

        claimed.partition := state.partition;
        claimed.partition_id := state.partition_id;
        claimed.last_offset := least(state.tip, claimed.first_offset + _claim.max_messages - 1);
        if _claim.lease is not null then
            claimed.lease_token := gen_random_uuid();
        end if;

        -- Where another member was faster its row has this number: look again. Under REPEATABLE
        -- READ the conflict raises 40001.
        insert into pgq.group_position (
            group_id,
            partition,
            seq,
            first_offset,
            next_offset,
            recorded_at,
            leased_until,
            lease_token,
            lease_last_offset
        )
        values (
            state.group_id,
            state.partition,
            state.seq + 1,
            claimed.first_offset,
            case
                when _claim.lease is null then claimed.last_offset + 1
                else claimed.first_offset
            end,
            pgq._clock(),
            pgq._clock() + _claim.lease,
            claimed.lease_token,
            case when _claim.lease is not null then claimed.last_offset end
        )
        on conflict do nothing;

        if found then
            return claimed;
        end if;
    end loop;
end
$$;

comment on function pgq._claim(text, text, integer, integer, interval) is
'The common part of claim_offsets, consume and poll: takes the next messages of a partition for a
group, for good when lease is null. Null: nothing to read. Its segment is null when they may stand
in several.';
