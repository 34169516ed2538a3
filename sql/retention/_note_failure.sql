create function pgq._note_failure(
    part text, object bigint, error_code text, error text, now_at timestamptz
)
returns pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    shown record;
    failed text;
    hidden text := format('SQLSTATE %s; pgq.list_cleanup_failures tells more', error_code);
begin
    if error_code <> '53100' then
        perform pgq._store_failure(part, object, error_code, error, now_at);
    else
        begin
            perform pgq._store_failure(part, object, error_code, error, now_at);
        exception
            -- Truncation, which comes later, frees space.
            when disk_full then
                null;
        end;
    end if;

    select d.* into shown from pgq._describe_object(part, object) as d;
    failed := part || coalesce(' of ' || shown.target, '');
    begin
        -- The message may have names that are hidden from the caller.
        raise warning 'cleanup could not do its part "%"', failed
            using errcode = error_code,
                detail = case when shown.administered then error else hidden || '.' end,
                hint = 'What it did is undone, the other parts are done.';
    exception
        -- The message has characters that the encoding of the client lacks.
        when others then
            raise warning 'cleanup could not do its part "%"', failed
                using errcode = error_code, detail = hidden || '.';
    end;

    return row('failed', failed || ': ' || error_code, 1)::pgq.cleanup_action;
end
$$;

comment on function pgq._note_failure(text, bigint, text, text, timestamptz) is
'Notes that a part of cleanup failed for an object, or as a whole where that is null, raises a
warning, and returns the action to report.';
