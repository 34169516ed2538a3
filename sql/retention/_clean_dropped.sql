create function pgq._clean_dropped(
    started pg_snapshot, horizon xid8, settled xid8, moment timestamptz
)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    target pgq.dropped_range;
    report pgq.cleanup_action;
    budget integer := 10000;
    removed bigint;
begin
    for target in
        select o.*
        from pgq.dropped_range as o
        where o.horizon is null
            or o.horizon <= settled
            or o.horizon >= pg_snapshot_xmax(pg_current_snapshot())
        for update skip locked
    loop
        -- Relocate the payloads of jobs that live on first: jobs of the queue, or jobs that point
        -- at messages of the topic.
        for report in
            select r.*
            from pgq._carry_jobs(
                target.segment,
                target.queue_id,
                case when target.queue_id is null then target.partition_id end,
                moment,
                budget
            ) as r
        loop
            budget := budget - report.amount;
            return next report;
        end loop;
        exit when budget <= 0;

        -- If some jobs could not be relocated, keep all messages of the partition for now.
        if target.queue_id is null
            and pgq._has_jobs(target.segment, null, target.partition_id)
        then
            return next row('segment busy', target.segment::text, 1)::pgq.cleanup_action;
            continue;
        end if;

        execute format(
            'delete from pgq.message_%1$s as m
            where m.partition_id = $1
                and m.log_offset = any(array(
                    select n.log_offset
                    from pgq.message_%1$s as n
                    where n.partition_id = $1
                        and n.log_offset between $2 and $3
                        and not exists (
                            select
                            from pgq.job as j
                            where (j.job_id, j.partition_id, j.segment)
                                = (n.log_offset, $1, %1$s)
                        )
                        and not exists (
                            select
                            from pgq.dead_job as d
                            where (d.job_id, d.partition_id, d.segment)
                                = (n.log_offset, $1, %1$s)
                        )
                    order by n.log_offset
                    limit $4
                ))',
            target.segment
        )
        using target.partition_id, target.first_offset, target.last_offset, budget;
        get diagnostics removed = row_count;
        if target.queue_id is not null and budget > removed then
            removed := removed
                + pgq._remove_archived(target.segment, target.queue_id, budget - removed);
        end if;
        budget := budget - removed;

        if removed > 0 then
            return next row(
                'dropped messages deleted', target.segment::text, removed
            )::pgq.cleanup_action;
        end if;
        exit when budget <= 0;

        -- Retry jobs that were locked in a later call.
        continue when target.queue_id is not null
            and pgq._has_jobs(target.segment, target.queue_id, null);

        -- An enqueue that began before the range was recorded may still store a job in it. Look
        -- again once all transactions below the horizon have ended, and not before. A horizon above
        -- the snapshot dates from before a restore into another cluster.
        if target.noted_xid is not null
            and (
                target.horizon is null
                or target.horizon >= pg_snapshot_xmax(pg_current_snapshot())
            )
        then
            update pgq.dropped_range as o
            set horizon = _clean_dropped.horizon
            where (o.partition_id, o.segment, o.first_offset)
                = (target.partition_id, target.segment, target.first_offset)
                and (
                    pg_visible_in_snapshot(target.noted_xid, started)
                    or target.noted_xid >= pg_snapshot_xmax(pg_current_snapshot())
                );
            continue;
        end if;

        delete from pgq.dropped_range as o
        where (o.partition_id, o.segment, o.first_offset)
            = (target.partition_id, target.segment, target.first_offset);
    end loop;

    if budget <= 0 then
        return next row('more', 'dropped messages', 1)::pgq.cleanup_action;
    end if;
end
$$;

comment on function pgq._clean_dropped(pg_snapshot, xid8, xid8, timestamptz) is
'The part of cleanup that deletes messages of dropped topics and queues in segments that are never
truncated.';
