create function pgq._note_former_window(
    scope_id bigint, window_before interval, window_now interval
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    tier_before interval := pgq._key_tier(window_before);
    tier_now interval := pgq._key_tier(window_now);
begin
    if tier_before = tier_now then
        return;
    end if;

    delete from pgq.former_window as f
    where f.scope_id = _note_former_window.scope_id and f.tier = tier_now;

    insert into pgq.former_window (scope_id, tier, window_length, noted_xid)
    values (scope_id, tier_before, window_before, pg_current_xact_id());
end
$$;

comment on function pgq._note_former_window(bigint, interval, interval) is
'Records the window that a queue or topic had before: its keys must still be found, and transactions
that know only that window may insert more. The caller holds the lock on the row of the queue or
topic.';
