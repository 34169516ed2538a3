create function pgq._check_read_committed(function_name text)
returns void
language plpgsql stable parallel safe
as $$
begin
    -- A standby cannot read unlogged tables: raise its usual error for writes first.
    if pg_is_in_recovery() then
        perform pg_current_xact_id();
    end if;
    if pgq._keeps_snapshot() then
        raise exception '% needs READ COMMITTED', function_name
            using errcode = '25001', hint = 'Call it in a transaction of that isolation level.';
    end if;
end
$$;

comment on function pgq._check_read_committed(text) is
'Raises 25001 above READ COMMITTED, where an old snapshot would hide rows from the function; 25006
on a standby.';
