create function pgq._find_jobs(act text, queue_id bigint, filter pgq._job_filter)
returns pgq._found_jobs
language sql volatile parallel unsafe
as $$
-- By id, through the jobs of all queues: no index has the ids of one queue. Each call looks at as
-- many rows, so it takes as long whatever matches.
with looked as materialized (
    (
        select
            d.job_id, d.queue_id = _find_jobs.queue_id as is_own,
            d.queue_id = _find_jobs.queue_id
            and pgq._filter_matches(
                filter, d.label, d.last_error, d.ordered_key, d.died_at
            ) as matches
        from pgq.dead_job as d
        where act = 'dead' and d.job_id > coalesce((filter).after_id, -1)
        order by d.job_id
        limit 10000
    )
    union all
    (
        select
            j.job_id, j.queue_id = _find_jobs.queue_id as is_own,
            j.queue_id = _find_jobs.queue_id and pgq._is_meant(act, j, filter) as matches
        from pgq.job as j
        where act <> 'dead' and j.job_id > coalesce((filter).after_id, -1)
        order by j.job_id
        limit 10000
    )
),

-- Up to the last one that max_jobs allows.
counted as (
    select
        l.*,
        count(*) filter (where l.matches) over (order by l.job_id) - l.matches::integer
        < coalesce((filter).max_jobs, 10000) as is_within
    from looked as l
)

select
    row(
        coalesce(
            array_agg(c.job_id order by c.job_id) filter (where c.is_within and c.matches), '{}'
        ),
        count(*) filter (where c.is_within and c.is_own),
        case
            when count(*) = 10000 or not bool_and(c.is_within)
                then max(c.job_id) filter (where c.is_within)
        end
    )::pgq._found_jobs
from counted as c
$$;

comment on function pgq._find_jobs(text, bigint, pgq._job_filter) is
'Finds the jobs of a queue that match a filter, among the next 10,000 rows.
act: dead (the dead letters), cancel (unfinished jobs), retry (those that wait for their time).';
