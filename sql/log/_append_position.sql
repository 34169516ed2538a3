create function pgq._append_position(
    state pgq._group_state, next_offset bigint, leased_until timestamptz, lease_token uuid
)
returns boolean
language plpgsql volatile parallel unsafe
as $$
begin
    if (state).max_attempts is null and (state).last_error is null then
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
            (state).group_id,
            (state).partition,
            (state).seq + 1,
            (state).next_offset,
            next_offset,
            pgq._clock(),
            leased_until,
            lease_token,
            case when lease_token is not null then (state).lease_last_offset end
        )
        on conflict do nothing;
    else
        insert into pgq.group_position (
            group_id,
            partition,
            seq,
            first_offset,
            next_offset,
            recorded_at,
            leased_until,
            lease_token,
            lease_last_offset,
            attempts
        )
        values (
            (state).group_id,
            (state).partition,
            (state).seq + 1,
            (state).next_offset,
            next_offset,
            pgq._clock(),
            leased_until,
            lease_token,
            case when lease_token is not null then (state).lease_last_offset end,
            -- Attempts belong to one position: moving it while keeping the lease starts at attempt
            -- 1.
            row(
                case
                    when next_offset = (state).next_offset then (state).attempt
                    when lease_token is not null then 1
                end,
                case when next_offset = (state).next_offset then (state).last_error end,
                (state).tried_offset, (state).single_offset
            )::pgq._attempts
        )
        on conflict do nothing;
    end if;

    return found;
end
$$;

comment on function pgq._append_position(pgq._group_state, bigint, timestamptz, uuid) is
'Appends a position or lease of a group to its journal, for a partition whose row the caller has
locked; false if another member''s row has that seq.
Under REPEATABLE READ, another member''s newer row raises 40001.';
