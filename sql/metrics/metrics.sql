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
    return query
    with samples as materialized (
        select s.* from pgq._house_samples(moment) as s
        union all
        select s.* from pgq._topic_samples(moment) as s
        union all
        select s.* from pgq._staged_samples(moment) as s
        union all
        select s.* from pgq._queue_samples(moment) as s
        union all
        select s.* from pgq._holder_samples() as s
        union all
        select
            'pgq_metrics_seconds',
            '{}'::jsonb,
            extract(epoch from clock_timestamp() - begun)::double precision
    )

    select d.name, d.type, d.help, s.labels, s.value
    from pgq._describe_metrics() as d
    inner join samples as s on s.name = d.name
    order by d.place;
end
$$;

comment on function pgq.metrics() is
'Figures for those who watch: lag, depth, ages, counts, and what holds cleanup back, a row each.
Names, types and labels are those of Prometheus: seconds and bytes, _total for what only rises. It
reads the newest message of each partition and counts no messages; jobs are counted as long as they
are few, else estimated (pgq_queue_jobs_estimated). sql/metrics/README.md tells more of each one.';
