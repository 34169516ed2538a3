create function pgq._truncate_segments(moment timestamptz)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
    bytes bigint;
    budget bigint := 10000;
    report pgq.cleanup_action;
    met_reader boolean := false;
    -- One call does so many: it keeps locks on all of their tables.
    room integer := 100;
    unfinished boolean := false;
begin
    -- The clock was ahead when they were closed.
    update pgq.segment as s
    set closed_at = _truncate_segments.moment
    where s.closed_at > _truncate_segments.moment;

    for target in
        select
            s.segment, c.retention, c.max_bytes, c.storage_class_id, s.closed_at,
            c.segment is null
            and not exists (
                select from pgq.segment_range as r where r.segment = s.segment
            ) as out_of_use,
            false as due
        from pgq.segment as s
        inner join pgq.storage_class as c on c.storage_class_id = s.storage_class_id
        where s.state = 'closed'
        order by s.closed_at
        for update of s skip locked
    loop
        bytes := null;
        if target.max_bytes is not null then
            select sum(pg_table_size(('pgq.message_' || s.segment)::regclass))
            into bytes
            from pgq.segment as s
            where s.storage_class_id = target.storage_class_id and s.segment <> target.segment;
        end if;

        target.due := coalesce(
            target.closed_at + target.retention <= moment
            or bytes >= target.max_bytes, false
        );
        continue when not target.due
            and (
                not target.out_of_use
                or pgq._has_archived(target.segment)
                or pgq._has_keys(target.segment)
            );

        -- What is staged there may still be taken into the log. None comes to it any more.
        if exists (select from pgq.staged_run as r where r.segment = target.segment) then
            return next row('segment busy', target.segment::text, 1)::pgq.cleanup_action;
            continue;
        end if;

        -- Jobs that live on get their payloads elsewhere first: nobody waits for that.
        if budget > 0 then
            for report in
                select r.*
                from pgq._carry_jobs(
                    target.segment, null, null, _truncate_segments.moment, budget::integer
                ) as r
            loop
                budget := budget - report.amount;
                return next report;
            end loop;
        end if;

        -- None can come to it any more: it is closed, and who changes a job leaves the payload
        -- where it is.
        if pgq._has_jobs(target.segment, null, null) then
            if budget > 0 then
                return next row('segment busy', target.segment::text, 1)::pgq.cleanup_action;
            else
                unfinished := true;
            end if;
            continue;
        end if;

        -- Only now: what finishes a job notes it in the segment of its payload.
        continue when not target.due and pgq._has_archived(target.segment);

        -- One reader of all segments costs one wait.
        for report in select r.* from pgq._truncate_segment(target.segment, not met_reader) as r
        loop
            met_reader := met_reader or report.action = 'segment busy';
            room := room - (report.action = 'segment truncated')::integer;
            return next report;
        end loop;
        exit when room = 0;
    end loop;

    if unfinished or room = 0 then
        return next row('more', 'truncation', 1)::pgq.cleanup_action;
    end if;
end
$$;

comment on function pgq._truncate_segments(timestamptz) is
'The part of cleanup that empties closed segments whose messages are older than their retention,
100 at most.';
