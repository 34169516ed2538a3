create function pgq._redrive_jobs(target pgq.queue, ids bigint[], per_second double precision)
returns bigint
language plpgsql volatile parallel unsafe
as $$
declare
    ordered_keys text[];
    free text[];
    moved bigint;
begin
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
    perform pgq._trim_attempts(ids, target.segment);

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
    perform pgq._announce_jobs(ids);

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

comment on function pgq._redrive_jobs(pgq.queue, bigint[], double precision) is
'Puts dead letters, whose rows the caller has locked, back into their queue; returns how many.';
