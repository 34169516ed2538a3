create function pgq._truncate_segments(moment timestamptz)
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target record;
    bytes bigint;
    report record;
    budget bigint := 10000;
begin
    -- The clock was ahead when they were closed.
    update pgq.segment as s
    set closed_at = _truncate_segments.moment
    where s.closed_at > _truncate_segments.moment;

    for target in
        select
            s.segment,
            c.retention,
            c.max_bytes,
            c.storage_class_id,
            s.closed_at,
            c.segment is null
            and not exists (
                select from pgq.segment_range as r where r.segment = s.segment
            ) as out_of_use
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
            where s.storage_class_id = target.storage_class_id
                and s.segment <> target.segment;
        end if;

        if target.out_of_use then
            target.out_of_use := not pgq._has_archived(target.segment);
        end if;

        continue when not target.out_of_use
            and (target.closed_at + target.retention <= _truncate_segments.moment) is not true
            and (bytes >= target.max_bytes) is not true;

        -- Jobs that live on get their payloads elsewhere first: nobody waits for that.
        if budget > 0 then
            for report in
                select r.*
                from pgq._carry_jobs(
                    target.segment, null, _truncate_segments.moment, budget::integer
                ) as r
            loop
                budget := budget - report.amount;
                return next report;
            end loop;
        end if;

        -- None can come to it any more: it is closed, and who changes a job leaves the payload
        -- where it is.
        if cardinality(pgq._jobs_of_segment(target.segment, null, 1, false)) > 0
            or cardinality(pgq._jobs_of_segment(target.segment, null, 1, true)) > 0
        then
            if budget > 0 then
                return next row('segment busy', target.segment::text, 1)::pgq.cleanup_report;
            else
                return next row('more', 'truncation', 1)::pgq.cleanup_report;
            end if;
            continue;
        end if;

        return query
        select r.*
        from pgq._truncate_segment(target.segment) as r;
    end loop;
end
$$;

comment on function pgq._truncate_segments(timestamptz) is
'The part of cleanup that empties closed segments whose messages are older than their retention.';
