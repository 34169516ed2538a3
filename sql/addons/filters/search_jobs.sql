create function pgq.search_jobs(
    queue text,
    state text default null,
    max_jobs integer default 100,
    key text default null,
    label text default null,
    error_contains text default null,
    due_since timestamptz default null,
    due_before timestamptz default null
)
returns setof pgq.job_info
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    target_id bigint;
    wanted text := state;
    filter pgq._job_filter := row(
        label, error_contains, key, due_since, due_before, null, null, null
    );
    jobs bigint := coalesce(max_jobs, 100);
    now_at timestamptz := pgq._clock();
begin
    perform pgq._check_count('max_jobs', jobs, 1, 10000);
    perform pgq._check_job_state(wanted collate "C");
    target_id := pgq._queue_id(queue collate "C", 'consume');
    perform pgq._check_job_filter(queue collate "C", filter);

    -- No index holds the ids of one queue: see _find_jobs.
    return query
    select i.*
    from (
        select n.job_id
        from (select j.* from pgq.job as j order by j.job_id desc limit 100000) as n
        cross join lateral pgq._job_state(
            n.lease_token, n.visible_at, n.expires_at, n.due_at, now_at
        ) as s (state)
        where n.queue_id = target_id
            and coalesce(wanted collate "C", s.state) = s.state
            and pgq._filter_matches(
                filter, n.label, n.last_error, n.ordered_key, coalesce(n.due_at, n.visible_at)
            )
        order by n.job_id desc
        limit jobs
    ) as f
    cross join lateral pgq.get_job(f.job_id) as i
    order by f.job_id desc;
end
$$;

comment on function pgq.search_jobs(
    text, text, integer, text, text, text, timestamptz, timestamptz
) is
'Returns unfinished jobs of a queue that match a filter, the newest first.
It searches the newest 100000 unfinished jobs, including those of other queues, so its duration does
not depend on the filter; older jobs are not found. Filters, which must all match: state (ready,
leased, delayed, waiting or expired); label; error_contains, a text in the last error, not a
pattern; key, in an ordered queue; due_since and due_before, the time at which a job is due or its
lease ends. max_jobs: 1 to 10000; by default 100.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 a bad argument, 40001 when
retention removes what is being read (try again).';
