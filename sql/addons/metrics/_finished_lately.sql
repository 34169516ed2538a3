create function pgq._finished_lately(now_at timestamptz)
returns setof pgq._finished_jobs
language plpgsql stable parallel safe
set jit = off
as $$
declare
    -- Rows are appended: read at most this many pages, the last ones of each leaf.
    most_pages constant bigint := 50;
    page_size bigint := current_setting('block_size')::bigint;
    since timestamptz := now_at - interval '1 minute';
    target record;
    first_page bigint;
begin
    for target in
        select l.leaf, f.bytes
        from pgq.leaf as l
        cross join lateral (
            select pg_relation_size(to_regclass('pgq.job_archive_' || l.leaf)) as bytes
        ) as f
        where not l.free
            and f.bytes > 0
    loop
        first_page := greatest(target.bytes / page_size - most_pages, 0);
        -- If all of these pages are from the last minute, there are more: extrapolate from their
        -- rate.
        return query execute format(
            'with lately as materialized (
                select a.queue_id, a.ended_at
                from pgq.job_archive_%s as a
                where a.ctid >= ''(%s,0)''::tid
            ),

            reach as (
                select min(l.ended_at) as earliest
                from lately as l
            )

            select
                l.queue_id,
                count(*) * case
                    when $2 = 0 or r.earliest <= $1 or r.earliest >= $3 then 1
                    else 60 / extract(epoch from $3 - r.earliest)::double precision
                end
            from lately as l
            cross join reach as r
            where l.ended_at > $1
            group by l.queue_id, r.earliest',
            target.leaf,
            first_page
        )
        using since, first_page, now_at;
    end loop;
end
$$;

comment on function pgq._finished_lately(timestamptz) is
'The number of jobs of each queue archived during the last minute, a row for each segment. It reads
only the end of the archive.';
