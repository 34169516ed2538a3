create function pgq.get_result(job_id bigint)
returns setof pgq.job_result
language plpgsql stable parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    found_result pgq.job_result;
    target_id bigint;
begin
    if job_id is null then
        raise exception 'argument "job_id" must not be null' using errcode = '22004';
    end if;

    -- One statement: a job that ends meanwhile is in one of the three.
    select r.queue_id, r.state, r.result, r.error, r.ended_at
    into
        target_id, found_result.state, found_result.result, found_result.error,
        found_result.ended_at
    from (
        select
            j.queue_id,
            case
                when not pgq._is_free(j) then 'leased'
                when j.due_at is not null then 'blocked'
                else 'waiting'
            end as state,
            null::jsonb as result, null::text as error, null::timestamptz as ended_at
        from pgq.job as j
        where j.job_id = get_result.job_id
        union all
        select d.queue_id, 'failed', null, d.last_error, d.died_at
        from pgq.dead_job as d
        where d.job_id = get_result.job_id
        union all
        select e.queue_id, e.event, e.result, null, e.ended_at
        from pgq.job_event as e
        where e.job_id = get_result.job_id
            and e.event in ('finished', 'cancelled', 'expired', 'replaced')
    ) as r
    limit 1;

    -- Who enqueues jobs may ask what came of them, without a right to work on them.
    if not exists (
        select
        from pgq.queue as q
        where q.queue_id = target_id
            and (
                q.consumers is null
                or q.publishers is null
                or pgq._may(q.consumers)
                or pgq._may(q.publishers)
            )
    ) then
        found_result := row('gone', null, null, null);
    end if;
    return next found_result;
end
$$;

comment on function pgq.get_result(bigint) is
'Returns the state and the result of a job: always one row.
state: waiting, leased, blocked (by another job of its key), finished, failed (a dead letter),
cancelled, expired, replaced (by a newer one of its unique_key, see create_queue), or gone. Queues
with keep_results keep these states for their retention, counted from the end of the job. In other
queues only dead letters are kept; all other ended jobs are gone, like jobs that never existed, that
were purged, or that are in a queue to which the caller may neither publish nor consume. A redriven
job is waiting again.
Errors: 22004 a required argument is null.';
