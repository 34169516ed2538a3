-- noqa: disable=RF05
create function pgq.metrics_text()
returns pgq."text/plain"
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
set jit = off
set work_mem = '32MB'
set extra_float_digits = 1
as $$
declare
    begun timestamptz := clock_timestamp();
    now_at timestamptz := pgq._clock();
begin
    return (
        with figures as materialized (
            select
                f.*, 'topic="' || pgq._exposition_text(f.topic) || '"' as topic_label,
                'consumer_group="' || pgq._exposition_text(f.consumer_group) || '"' as group_label
            from pgq._log_figures(now_at) as f
        ),

        -- The samples that metrics returns. Those of topics and groups, of which there are
        -- thousands, become lines at once: through rows with labels in JSON they take half as long
        -- again.
        lines as (
            select s.name, pgq._exposition_line(s.name, s.labels, l.written, s.value) as line
            from pgq._other_samples(now_at) as s
            cross join lateral (select s.labels::text as written offset 0) as l
            union all
            select s.name, s.line
            from figures as f
            cross join lateral (
                select
                    string_agg('pgq_group_lag_messages{' || l.labels || w.lag, E'\n') as messages,
                    string_agg('pgq_group_lag_seconds{' || l.labels || w.age, E'\n') as seconds
                from unnest(f.partitions, f.lags, f.ages) as w (partition, lag, age)
                cross join lateral (
                    select
                        f.topic_label || ', partition="' || w.partition || '", '
                        || f.group_label || '} ' as labels
                    offset 0
                ) as l
            ) as w
            cross join lateral (
                values
                ('pgq_group_lag_messages', w.messages),
                ('pgq_group_lag_seconds', w.seconds)
            ) as s (name, line)
            where s.line is not null
            union all
            select
                s.name,
                s.name || '{' || concat_ws(', ', f.topic_label, f.group_label) || '} ' || s.value
            from figures as f
            cross join lateral (
                values
                ('pgq_topic_published_total', f.published),
                ('pgq_topic_messages', f.kept),
                ('pgq_group_processed_messages', f.processed),
                ('pgq_group_failing_partitions', f.failing)
            ) as s (name, value)
            where s.value is not null
            union all
            select
                'pgq_metrics_seconds',
                'pgq_metrics_seconds ' || extract(epoch from clock_timestamp() - begun)
        ),

        blocks as (
            select w.name, string_agg(w.line, E'\n') as lines
            from lines as w
            group by w.name
        )

        select
            string_agg(
                format(
                    E'# HELP %s %s\n# TYPE %s %s\n%s\n', d.name,
                    replace(replace(d.help, E'\\', E'\\\\'), E'\n', E'\\n'), d.name, d.type, b.lines
                ),
                ''
                order by d.ordinal
            )
        from pgq._describe_metrics() with ordinality as d (name, type, help, ordinal)
        inner join blocks as b on b.name = d.name
    );
end
$$;

comment on function pgq.metrics_text() is
'Returns the metrics as text in the exposition format 0.0.4 of Prometheus.
Over HTTP, PostgREST serves it as text/plain, so that Prometheus can scrape it there.';
