create function pgq.metrics()
returns setof pgq.metric
language plpgsql
stable
parallel unsafe
rows 1000
security definer
set search_path = pgq, pg_temp
set jit = off
set work_mem = '32MB'
as $$
#variable_conflict use_column
declare
    begun timestamptz := clock_timestamp();
    moment timestamptz := pgq._clock();
begin
    -- One after the other, and not sorted: with thousands of rows that takes a fifth of the time.
    return query
    select d.name, d.type, d.help, s.labels, s.value
    from pgq._house_samples(moment) as s
    inner join pgq._describe_metrics() as d on d.name = s.name;

    return query
    select d.name, d.type, d.help, s.labels, s.value
    from pgq._topic_samples(moment) as s
    inner join pgq._describe_metrics() as d on d.name = s.name;

    return query
    select d.name, d.type, d.help, s.labels, s.value
    from pgq._staged_samples(moment) as s
    inner join pgq._describe_metrics() as d on d.name = s.name;

    return query
    select d.name, d.type, d.help, s.labels, s.value
    from pgq._queue_samples(moment) as s
    inner join pgq._describe_metrics() as d on d.name = s.name;

    return query
    select d.name, d.type, d.help, s.labels, s.value
    from pgq._holder_samples() as s
    inner join pgq._describe_metrics() as d on d.name = s.name;

    return query
    select
        d.name,
        d.type,
        d.help,
        '{}'::jsonb,
        extract(epoch from clock_timestamp() - begun)::double precision
    from pgq._describe_metrics() as d
    where d.name = 'pgq_metrics_seconds';
end
$$;

comment on function pgq.metrics() is
'Figures for those who watch: lag, depth, ages, counts, and what holds cleanup back, a row each.
Names, types and labels are those of Prometheus: seconds and bytes, _total for what only rises. It
reads the newest message of each partition and counts no messages; jobs are counted as long as they
are few, else estimated (pgq_queue_jobs_estimated). sql/metrics/README.md tells more of each one.';
