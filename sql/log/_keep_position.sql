create function pgq._keep_position(state pgq._group_state)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    if pgq._keeps_snapshot() then
        perform pgq._append_position(
            state, (state).next_offset, (state).leased_until, (state).lease_token
        );
    end if;
end
$$;

comment on function pgq._keep_position(pgq._group_state) is
'Appends the unchanged position, for a call that changes nothing: above READ COMMITTED, a snapshot
that does not show the newest position then raises 40001.';
