create function pgq._find_jobs(act text, queue_id bigint, filter pgq._job_filter)
returns pgq._found_jobs
language sql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
-- By id, through the jobs of all queues: no index has the ids of one queue. Each call looks at as
-- many rows, so it takes as long whatever matches.
with looked as materialized (
    (
        select
            d.job_id, d.queue_id, d.label, d.last_error, d.ordered_key, d.died_at as comes_at,
            act = 'dead' as is_meant
        from pgq.dead_job as d
        where act = 'dead' and d.job_id > coalesce((filter).after_id, -1)
        order by d.job_id
        limit 10000
    )
    union all
    (
        select
            j.job_id, j.queue_id, j.label, j.last_error, j.ordered_key,
            coalesce(j.due_at, j.visible_at) as comes_at,
            case when act = 'cancel' then (filter).leased or pgq._is_free(j) else pgq._is_waiting(j)
            end as is_meant
        from pgq.job as j
        where act <> 'dead' and j.job_id > coalesce((filter).after_id, -1)
        order by j.job_id
        limit 10000
    )
),

matched as (
    select
        l.job_id, l.queue_id = _find_jobs.queue_id as is_own,
        coalesce(
            l.queue_id = _find_jobs.queue_id
            and l.is_meant
            and ((filter).label is null or l.label = (filter).label)
            and ((filter).key is null or l.ordered_key = (filter).key)
            and ((filter).since is null or l.comes_at >= (filter).since)
            and ((filter).before is null or l.comes_at < (filter).before)
            and (
                (filter).error_contains is null
                or strpos(l.last_error, (filter).error_contains collate "C") > 0
            ),
            false
        ) as matches
    from looked as l
),

-- Up to the last one that max_jobs allows.
counted as (
    select
        m.*,
        count(*) filter (where m.matches) over (order by m.job_id) - m.matches::integer
        < coalesce((filter).max_jobs, 10000) as is_within
    from matched as m
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
