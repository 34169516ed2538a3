create function pgq._clean_dropped(
    objects int8multirange, started pg_snapshot, horizon xid8, oldest_xid xid8, now_at timestamptz
)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    gone pgq.dropped_range;
    report pgq.cleanup_action;
    budget integer := 10000;
    removed bigint;
begin
    for gone in
        select o.*
        from pgq.dropped_range as o
        where o.partition_id <@ objects
            and (
                o.horizon is null
                or o.horizon <= oldest_xid
                or o.horizon >= pg_snapshot_xmax(pg_current_snapshot())
            )
        for update skip locked
    loop
        -- Relocate the payloads of jobs that live on first: jobs of the queue, or jobs that point
        -- at messages of the topic.
        for report in
            select r.*
            from pgq._relocate_payloads(
                gone.segment,
                gone.queue_id,
                case when gone.queue_id is null then gone.partition_id end,
                now_at,
                budget
            ) as r
        loop
            budget := budget - report.amount;
            return next report;
        end loop;
        exit when budget <= 0;

        -- If some jobs could not be relocated, keep all messages of the partition for now.
        if gone.queue_id is null
            and pgq._has_jobs(gone.segment, null, gone.partition_id)
        then
            return next row('segment busy', gone.segment::text, 1)::pgq.cleanup_action;
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
            gone.segment
        )
        using gone.partition_id, gone.first_offset, gone.last_offset, budget;
        get diagnostics removed = row_count;
        if gone.queue_id is not null and budget > removed then
            removed := removed
                + pgq._remove_archived(gone.segment, gone.queue_id, budget - removed);
        end if;
        budget := budget - removed;

        if removed > 0 then
            return next row(
                'dropped messages deleted', gone.segment::text, removed
            )::pgq.cleanup_action;
        end if;
        exit when budget <= 0;

        -- Retry jobs that were locked in a later call.
        continue when gone.queue_id is not null
            and pgq._has_jobs(gone.segment, gone.queue_id, null);

        -- An enqueue that began before the range was recorded may still store a job in it. Look
        -- again once all transactions below the horizon have ended, and not before. A horizon above
        -- the snapshot dates from before a restore into another cluster.
        if gone.noted_xid is not null
            and (
                gone.horizon is null
                or gone.horizon >= pg_snapshot_xmax(pg_current_snapshot())
            )
        then
            update pgq.dropped_range as o
            set horizon = _clean_dropped.horizon
            where (o.partition_id, o.segment, o.first_offset)
                = (gone.partition_id, gone.segment, gone.first_offset)
                and (
                    pg_visible_in_snapshot(gone.noted_xid, started)
                    or gone.noted_xid >= pg_snapshot_xmax(pg_current_snapshot())
                );
            continue;
        end if;

        delete from pgq.dropped_range as o
        where (o.partition_id, o.segment, o.first_offset)
            = (gone.partition_id, gone.segment, gone.first_offset);
    end loop;

    if budget <= 0 then
        return next row('more', 'dropped messages', 1)::pgq.cleanup_action;
    end if;
end
$$;

comment on function pgq._clean_dropped(int8multirange, pg_snapshot, xid8, xid8, timestamptz) is
'The part of cleanup that deletes messages of dropped topics and queues in segments that are never
truncated.';
