create function pgq.peek_jobs(
    queue text,
    state text default null,
    max_jobs integer default 100
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
    jobs bigint := coalesce(max_jobs, 100);
    wanted text := state;
    now_at timestamptz := pgq._clock();
    from_at timestamptz := '-infinity';
    until_at timestamptz := 'infinity';
    seen_id bigint;
begin
    perform pgq._check_count('max_jobs', jobs, 1, 10000);
    perform pgq._check_job_state(wanted collate "C");
    target_id := pgq._queue_id(queue collate "C", 'consume');

    -- Only leased and delayed jobs have a time to come, and blocked jobs have infinity: by its
    -- times a rare state is found without a scan of the others.
    if wanted collate "C" in ('leased', 'delayed') then
        from_at := now_at;
    elsif wanted collate "C" = 'waiting' then
        from_at := 'infinity';
    elsif wanted collate "C" = 'ready' then
        until_at := now_at;
    end if;

    for priority_at in 0 .. 9 loop
        for seen_id in
            select n.job_id
            from (
                select
                    j.job_id, j.visible_at,
                    pgq._job_state(
                        j.lease_token, j.visible_at, j.expires_at, j.due_at, now_at
                    ) as state
                from pgq.job as j
                where j.queue_id = target_id
                    and j.priority = priority_at
                    and j.visible_at between from_at and until_at
                order by j.visible_at, j.job_id
                limit 20000
            ) as n
            where coalesce(wanted collate "C", n.state) = n.state
            order by n.visible_at, n.job_id
            limit jobs
        loop
            return query select i.* from pgq.get_job(seen_id) as i;
            jobs := jobs - 1;
        end loop;
        exit when jobs = 0;
    end loop;
end
$$;

comment on function pgq.peek_jobs(text, text, integer) is
'Returns unfinished jobs of a queue, in the order of claims, without claiming any.
state: ready, leased, delayed, waiting or expired, the words of get_job; null: any. max_jobs: 1 to
10000; by default 100. It has no further pages. With a state it examines the first 20000 jobs of
each priority whose times allow this state. Jobs that a subscription has not created yet have no id,
and are not shown; queue_stats counts them.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 bad state or max_jobs, 40001
when retention removes what is being read (try again).';
