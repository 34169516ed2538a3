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
    -- SKIP LOCKED: a concurrent cleanup notes the same failure.
    with former as (
        delete from pgq.cleanup_failure as f
        where f.cleanup_failure_id = any(array(
            select g.cleanup_failure_id
            from pgq.cleanup_failure as g
            where g.part = _note_failure.part and g.object is not distinct from _note_failure.object
            for update skip locked
        ))
        returning f.failed_since
    )

    insert into pgq.cleanup_failure (part, object, failed_since, tried_at, error_code, error)
    select part, object, least(min(f.failed_since), now_at), now_at, error_code, left(error, 2000)
    from former as f;

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
