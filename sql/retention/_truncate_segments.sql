create function pgq._truncate_segments(objects int8multirange, now_at timestamptz)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
    bytes bigint;
    budget bigint := 10000;
    report pgq.cleanup_action;
    met_reader boolean := false;
    -- A limit for each call, which keeps locks on all of their tables, and whose subtransactions
    -- count: past 64 the snapshots of all other sessions get slow.
    room integer := 10;
    unfinished boolean := false;
begin
    -- The clock was ahead when they were closed.
    update pgq.segment as s
    set closed_at = now_at
    where s.closed_at > now_at and s.segment::bigint <@ objects;

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
        where s.state = 'closed' and s.segment::bigint <@ objects
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
            target.closed_at + target.retention <= now_at
            or bytes >= target.max_bytes, false
        );
        continue when not target.due
            and (
                not target.out_of_use
                or pgq._has_archived(target.segment)
                or pgq._has_keys(target.segment)
            );

        -- Staged messages in it may still be committed to the log. A closed segment gets no more.
        if exists (select from pgq.staged_extent as r where r.segment = target.segment) then
            return next row('segment busy', target.segment::text, 1)::pgq.cleanup_action;
            continue;
        end if;

        -- Relocate the payloads of jobs that live on first: this needs no strong lock.
        if budget > 0 then
            for report in
                select r.*
                from pgq._relocate_payloads(
                    target.segment, null, null, now_at, budget::integer
                ) as r
            loop
                budget := budget - report.amount;
                return next report;
            end loop;
        end if;

        -- No job can be added: the segment is closed, and changing a job does not move its payload.
        if pgq._has_jobs(target.segment, null, null) then
            if budget > 0 then
                return next row('segment busy', target.segment::text, 1)::pgq.cleanup_action;
            else
                unfinished := true;
            end if;
            continue;
        end if;

        -- Check only after the jobs: a job that ends is archived in the segment of its payload.
        continue when not target.due and pgq._has_archived(target.segment);

        -- Wait for a lock only once: one transaction may be reading all segments.
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

comment on function pgq._truncate_segments(int8multirange, timestamptz) is
'The part of cleanup that truncates those of these segments that are closed, and past their
retention or not needed for max_bytes, 10 at most.';
