-- noqa: disable=RF05
create function pgq.metrics_text()
returns pgq."text/plain"
language plpgsql
stable
parallel unsafe
security definer
set search_path = pgq, pg_temp
set jit = off
set work_mem = '32MB'
as $$
#variable_conflict use_column
begin
    return (
        select string_agg(
            format(
                E'# HELP %s %s\n# TYPE %s %s\n%s\n',
                m.name,
                replace(replace(m.help, '\', '\\'), E'\n', '\n'),
                m.name,
                m.type,
                m.lines
            ),
            ''
            order by m.place
        )
        from (
            select
                m.name,
                min(m.type) as type,
                min(m.help) as help,
                min(m.ordinality) as place,
                string_agg(pgq._exposition_line(m.name, m.labels, m.value), E'\n') as lines
            from pgq.metrics() with ordinality as m
            group by m.name
        ) as m
    );
end
$$;

comment on function pgq.metrics_text() is
'What metrics returns, as text in the exposition format 0.0.4 of Prometheus.
Over HTTP, PostgREST serves it as text/plain, so that Prometheus can scrape it there.';
