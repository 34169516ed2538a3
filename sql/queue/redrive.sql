create function pgq.redrive(
    queue text,
    job_id bigint default null,
    all_jobs boolean default null,
    max_jobs integer default null,
    per_second double precision default null
)
returns bigint
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    target pgq.queue;
    ids bigint[];
    ordered_keys text[];
    free text[];
    moved bigint;
begin
    -- A dead letter added after the snapshot would be overlooked, with no row to conflict on.
    perform pgq._check_read_committed('redrive');
    perform pgq._check_access(null, queue collate "C", 'admin');

    -- Transaction id first, then the clock: the floor relies on it.
    if pg_current_xact_id() is null then
        return null;
    end if;

    select q.* into target from pgq.queue as q where q.queue = redrive.queue collate "C";

    if target.queue_id is null then
        perform pgq._fail_unknown_queue(queue collate "C");
    end if;
    perform pgq._check_redrive(job_id, all_jobs, max_jobs, per_second);
    ids := pgq._lock_dead_letters(target.queue_id, job_id, max_jobs);

    -- A letter that stops its key still holds it.
    ordered_keys := array(
        select d.ordered_key
        from pgq.dead_job as d
        where d.job_id = any(ids)
            and d.queue_id + 0 = target.queue_id
            and d.ordered_key is not null
            and not d.stops_key
            and target.ordered
    );
    free := pgq._join_order(target.queue_id, ordered_keys);

    ids := pgq._redrivable(target.queue_id, ids);

    -- No join, so that a plan cannot scan all letters to redrive one. queue_id + 0 matches no
    -- index, for the same reason.
    with gone as (
        delete from pgq.dead_job as d
        where d.job_id = any(ids) and d.queue_id + 0 = target.queue_id
        returning d.*
    ),

    -- One after the other at per_second, those that died first before the others.
    placed as (
        select
            r.*,
            r.ordered_key is not null
            and target.ordered
            and not r.stops_key
            and (
                f.ordered_key is null
                or row_number() over (partition by r.ordered_key, r.stops_key order by r.job_id) > 1
            ) as waits,
            pgq._clock() + make_interval(
                secs => coalesce(
                    (row_number() over (order by r.died_at, r.job_id) - 1) / per_second, 0
                )
            ) as now_at
        from gone as r
        left join unnest(free) as f (ordered_key) on f.ordered_key collate "C" = r.ordered_key
    )

    insert into pgq.job (
        job_id,
        queue_id,
        partition_id,
        log_offset,
        expires_at,
        visible_at,
        segment,
        attempt,
        priority,
        label,
        last_error,
        unique_key,
        max_attempts,
        ordered_key,
        due_at
    )
    select
        r.job_id,
        r.queue_id,
        r.partition_id,
        r.log_offset,
        r.now_at + target.job_ttl,
        case when r.waits then 'infinity' else r.now_at end,
        r.segment,
        0,
        r.priority,
        r.label,
        r.last_error,
        r.unique_key,
        r.max_attempts,
        case when target.ordered then r.ordered_key end,
        case when r.waits then r.now_at end
    from placed as r;
    get diagnostics moved = row_count;

    if cardinality(ordered_keys) > 0 then
        -- Redriven jobs come next in their key, even if its first job has a higher id.
        update pgq.ordered_key as k
        set from_id = least(k.from_id, w.job_id)
        from (
            select j.ordered_key, min(j.job_id) as job_id
            from pgq.job as j
            where j.job_id = any(ids) and j.due_at is not null
            group by j.ordered_key
        ) as w
        where k.queue_id = target.queue_id and k.ordered_key = w.ordered_key;

        -- Release the keys of letters that stay.
        perform pgq._turns(
            target.queue_id,
            array(select j.ordered_key from pgq.job as j where j.job_id = any(ids)), free
        );
    end if;

    return moved;
end
$$;

comment on function pgq.redrive(text, bigint, boolean, integer, double precision) is
'Puts dead letters back into their queue and returns how many.
job_id: this one. all_jobs => true: all of the queue; with max_jobs (1 to 1000000), at most that
many, oldest first; letters locked by another transaction are skipped. They are due at once, or with
per_second (0.001 to 1000000) spread over the time from now on, this many in each second, those that
died first before the others. They start again with all their attempts and the whole job_ttl,
counted from when they are due. A dead letter whose unique_key another job holds is not redriven. 0:
the job is not a dead letter of this queue, or its unique_key is held.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 neither job_id nor all_jobs,
or both, or a bad max_jobs or per_second, or one of these with job_id, 25001 not under READ
COMMITTED.';
