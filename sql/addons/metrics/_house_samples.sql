create function pgq._house_samples(now_at timestamptz)
returns setof pgq._sample
language plpgsql stable parallel unsafe
set jit = off
as $$
begin
    return query
    select 'pgq_info', jsonb_build_object('version', pgq.version()), 1::double precision
    union all
    select
        'pgq_segment_bytes',
        jsonb_build_object('segment', s.segment::text, 'state', s.state, 'content', c.content),
        pg_total_relation_size(to_regclass(format('pgq.%s_%s', c.relation, s.segment)))
    from pgq.segment as s
    cross join lateral (
        values
        ('messages', 'message'),
        ('finished jobs', 'job_archive'),
        ('attempts and results', 'job_event'),
        ('idempotency keys', 'idempotency')
    ) as c (content, relation)
    where s.segment is not null
    union all
    select s.name, jsonb_build_object('table', c.relname), s.value
    from pg_class as c
    cross join lateral (
        values
        ('pgq_table_bytes', pg_total_relation_size(c.oid)),
        ('pgq_table_dead_rows', pg_stat_get_dead_tuples(c.oid))
    ) as s (name, value)
    where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r' and not c.relispartition
    union all
    select
        'pgq_cleanup_overdue_seconds', '{}',
        greatest(
            max(
                extract(
                    epoch from now_at - case s.state
                        when 'open' then s.opened_at + c.retention / 3
                        when 'sealed' then s.sealed_at + interval '1 minute'
                        else s.closed_at + c.retention
                    end
                )
            ),
            0
        )
    from pgq.segment as s
    inner join pgq.storage_class as c on c.storage_class_id = s.storage_class_id
    union all
    select 'pgq_cleanup_failures', jsonb_build_object('part', f.part), count(*)
    from pgq.cleanup_failure as f
    group by f.part
    union all
    select s.name, jsonb_build_object('schedule', t.schedule), s.value
    from pgq.schedule as t
    cross join lateral (
        values
        (
            'pgq_schedule_overdue_seconds',
            case when t.paused then 0 else greatest(extract(epoch from now_at - t.next_at), 0) end
        ),
        ('pgq_schedule_failing', (t.last_error is not null)::integer)
    ) as s (name, value)
    where pgq._may_use(t.topic, t.queue, 'monitor')
    union all
    select s.name, '{}', s.value
    from (
        values
        ('pgq_jobs_created_total', coalesce(pg_sequence_last_value('pgq.job_id'), 0)),
        (
            'pgq_jobs_archived_total',
            (
                select sum(pg_stat_get_tuples_inserted(i.inhrelid))
                from pg_inherits as i
                where i.inhparent = 'pgq.job_archive'::regclass
            )
        )
    ) as s (name, value);
end
$$;

comment on function pgq._house_samples(timestamptz) is
'Samples of segments, tables, cleanup, schedules and all queues together.';
