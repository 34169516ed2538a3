create function pgq._seal_segments(objects int8multirange, now_at timestamptz)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    class_id bigint;
    sealed integer;
    met_lock boolean := false;
    -- A limit for each call, which keeps locks on the leaves that it creates, and whose
    -- subtransactions count: past 64 the snapshots of all other sessions get slow.
    room integer := 10;
begin
    foreach class_id in array array(
        select c.storage_class_id
        from pgq.storage_class as c
        where c.storage_class_id <@ objects
        order by c.storage_class_id
    ) loop
        -- One subtransaction for each class, so that a locked one does not stop the others.
        begin
            perform pgq._restore_mark(c.segment)
            from pgq.storage_class as c
            where c.storage_class_id = class_id and c.segment is not null;

            sealed := pgq._seal_segment(class_id, now_at, not met_lock);
            if sealed is not null then
                return next row('segment sealed', sealed::text, 1)::pgq.cleanup_action;
                room := room - 1;
            end if;
        exception
            when lock_not_available then
                -- Wait for a lock only once: publishers may be queued after this request.
                met_lock := true;
                return next row('busy', 'sealing', 1)::pgq.cleanup_action;
        end;

        if room = 0 then
            return next row('more', 'sealing', 1)::pgq.cleanup_action;
            exit;
        end if;
    end loop;
end
$$;

comment on function pgq._seal_segments(int8multirange, timestamptz) is
'The part of cleanup that moves these storage classes to new segments, and deletes those out of
use. It seals 10 segments at most.';
