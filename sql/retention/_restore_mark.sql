create function pgq._restore_mark(segment integer)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    kept boolean;
begin
    -- A subtransaction, rolled back to release its locks: thousands of segments may be open.
    begin
        kept := pgq._is_kept(segment);
        raise exception 'these locks are not needed any more' using errcode = '55P03';
    exception
        when lock_not_available then
            if kept is null then
                raise;
            end if;
    end;

    if not kept then
        perform pgq._mark_segment(segment);
    end if;
end
$$;

comment on function pgq._restore_mark(integer) is
'Inserts the first row of a segment in use again, after a dump was restored without messages.';
