create function pgq._truncate_segments(moment timestamptz)
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target record;
    moved bigint;
    bytes bigint;
begin
    for target in
        select
            s.segment,
            c.retention,
            c.max_bytes,
            c.storage_class_id,
            s.closed_at,
            not exists (
                select from pgq.topic as t where t.storage_class_id = c.storage_class_id
            )
            and not exists (
                select from pgq.queue as q where q.storage_class_id = c.storage_class_id
            )
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

        -- Here and not in the query of the loop: what that one reads cannot be truncated.
        if target.out_of_use then
            target.out_of_use := not exists (
                select
                from pgq.job_archive as a
                inner join pgq.queue as q on q.queue_id = a.queue_id
                where a.segment = target.segment
            );
        end if;

        continue when not target.out_of_use
            and (target.closed_at + target.retention <= _truncate_segments.moment) is not true
            and (bytes >= target.max_bytes) is not true;

        -- Wait a moment at most, and try again next time: whoever reads behind us would wait as
        -- well.
        begin
            execute format(
                'lock table pgq.message_%1$s, pgq.job_archive_%1$s in access exclusive mode',
                target.segment
            );
            moved := pgq._move_payloads(target.segment);
            execute format('truncate pgq.message_%1$s, pgq.job_archive_%1$s', target.segment);

            -- The log of a partition begins behind what is removed. Older messages that were to be
            -- kept longer, before its retention became shorter, go from sight with it.
            delete from pgq.segment_range as r
            using pgq.segment_range as s
            where s.segment = target.segment
                and r.partition_id = s.partition_id
                and r.first_offset <= s.first_offset;
            delete from pgq.segment as s
            where s.segment = target.segment;
        exception
            when lock_not_available then
                return next row('segment busy', target.segment::text, 1)::pgq.cleanup_report;
                return;
        end;

        if moved > 0 then
            return next row('payloads moved', target.segment::text, moved)::pgq.cleanup_report;
        end if;
        return next row('segment truncated', target.segment::text, 1)::pgq.cleanup_report;
    end loop;
end
$$;

comment on function pgq._truncate_segments(timestamptz) is
'The part of cleanup that empties closed segments whose messages are older than their retention.';
