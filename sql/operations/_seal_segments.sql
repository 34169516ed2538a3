create function pgq._seal_segments(moment timestamptz)
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    class pgq.storage_class;
    target pgq.segment;
    used boolean;
    filled boolean;
begin
    for class in
        select c.*
        from pgq.storage_class as c
        order by c.storage_class_id
        for update skip locked
    loop
        select s.*
        into target
        from pgq.segment as s
        where s.storage_class_id = class.storage_class_id
            and s.state = 'open';

        used := exists (
            select from pgq.topic as t where t.storage_class_id = class.storage_class_id
        ) or exists (
            select from pgq.queue as q where q.storage_class_id = class.storage_class_id
        );

        if target.segment is null then
            -- Nobody keeps anything in this class any more.
            if not used
                and not exists (
                    select from pgq.segment as s
                    where s.storage_class_id = class.storage_class_id
                )
            then
                delete from pgq.storage_class as c
                where c.storage_class_id = class.storage_class_id;
            end if;
            continue;
        end if;

        filled := exists (select from pgq.message as m where m.segment = target.segment)
            or exists (select from pgq.job_archive as a where a.segment = target.segment);

        if used and not filled then
            -- An empty segment does not age.
            update pgq.segment as s
            set opened_at = _seal_segments.moment
            where s.segment = target.segment;
            continue;
        end if;

        continue when used
            and (target.opened_at + class.retention / 3 <= _seal_segments.moment) is not true
            and (
                pg_table_size(('pgq.message_' || target.segment)::regclass) > class.max_bytes / 3
            ) is not true;

        update pgq.segment as s
        set
            state = 'sealed',
            sealed_at = _seal_segments.moment,
            sealed_xid = pg_current_xact_id()
        where s.segment = target.segment;

        if used then
            perform pgq._open_segment(class.storage_class_id);

            update pgq.topic as t
            set segment = pgq._open_segment_of(class.storage_class_id)
            where t.storage_class_id = class.storage_class_id;

            update pgq.queue as q
            set segment = pgq._open_segment_of(class.storage_class_id)
            where q.storage_class_id = class.storage_class_id;
        end if;

        return next row('segment sealed', target.segment::text, 1)::pgq.cleanup_report;
    end loop;
end
$$;

comment on function pgq._seal_segments(timestamptz) is
'The part of cleanup that lets a storage class go on to a new segment, and forgets classes out of
use.';
