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
    seen_id bigint;
begin
    perform pgq._check_count('max_jobs', jobs, 1, 10000);
    if wanted collate "C" not in ('ready', 'leased', 'delayed', 'waiting', 'expired') then
        raise exception
            'argument "state" must be ready, leased, delayed, waiting or expired'
            using errcode = '22023', hint = 'fetch_dead_letters shows those that are dead.';
    end if;

    perform pgq._check_access(null, queue collate "C", 'consume');

    select q.queue_id
    into target_id
    from pgq.queue as q
    where q.queue = peek_jobs.queue collate "C";

    if target_id is null then
        perform pgq._fail_unknown_queue(queue collate "C");
    end if;

    for seen_id in
        select j.job_id
        from pgq.job as j
        where j.queue_id = target_id
            and (
                wanted is null
                or wanted collate "C" = case
                    when j.lease_token is not null and j.visible_at > now_at then 'leased'
                    when j.expires_at <= now_at then 'expired'
                    when j.due_at is not null then 'waiting'
                    when j.visible_at <= now_at then 'ready'
                    else 'delayed'
                end
            )
        order by j.priority, j.visible_at, j.job_id
        limit jobs
    loop
        return query select i.* from pgq.get_job(seen_id) as i;
    end loop;
end
$$;

comment on function pgq.peek_jobs(text, text, integer) is
'Returns unfinished jobs of a queue, in the order of claims, without claiming any.
state: ready, leased, delayed, waiting or expired, the words of get_job; null: any. max_jobs: 1 to
10000; by default 100. It returns the first jobs only: a next page is not available. A rare state
may take as long as a scan of all unfinished jobs of the queue. Jobs that a subscription has still
to make have no id yet, and are not shown; queue_stats counts them.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 bad state or max_jobs, 40001
when retention removes what is being read (try again).';
