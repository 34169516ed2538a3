create function pgq._lock_floor(queue_id bigint, repeatable boolean default false)
returns boolean
language plpgsql volatile parallel unsafe
as $$
begin
    -- An old snapshot may miss the newest floors.
    if pgq._keeps_snapshot()
        and (current_setting('transaction_isolation') <> 'repeatable read' or not repeatable)
    then
        return false;
    end if;

    perform
    from pgq.queue_floor_lock as l
    where l.queue_id = _lock_floor.queue_id
    for no key update skip locked;

    return found;
end
$$;

comment on function pgq._lock_floor(bigint, boolean) is
'Locks the floors of a queue until the transaction ends; false: another transaction holds the lock,
or this one keeps a snapshot and may not see the newest floors. repeatable: the caller can handle
that under REPEATABLE READ.';
