create function pgq._sweep_jobs(moment timestamptz)
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target record;
    buried bigint;
begin
    for target in
        select q.queue_id, q.queue, q.max_attempts, l.swept_at, f.safe_at
        from pgq.queue as q
        inner join pgq.queue_floor_lock as l on l.queue_id = q.queue_id
        cross join lateral (
            select g.safe_at
            from pgq.queue_floor as g
            where g.queue_id = q.queue_id
                and g.label = ''
            order by g.seq desc
            limit 1
        ) as f
        where exists (select from pgq.job as j where j.queue_id = q.queue_id)
    loop
        -- Workers may not be able to raise the floor themselves.
        perform pgq._raise_floor(target.queue_id, null, _sweep_jobs.moment);
        perform pgq._sweep_labels(target.queue_id, _sweep_jobs.moment);

        perform
        from pgq.queue_floor_lock as l
        where l.queue_id = target.queue_id
        for no key update skip locked;
        continue when not found;

        -- Should the clock have been set back, nothing below counts as swept.
        if target.swept_at > _sweep_jobs.moment then
            target.swept_at := '-infinity';
        end if;

        buried := pgq._sweep_queue(
            target.queue_id,
            target.max_attempts,
            target.swept_at,
            least(_sweep_jobs.moment, target.safe_at),
            _sweep_jobs.moment
        );
        if buried > 0 then
            return next row('jobs dead', target.queue, buried)::pgq.cleanup_report;
        end if;
        if buried >= 1000 then
            return next row('more', 'jobs dead', 1)::pgq.cleanup_report;
        end if;

        if pgq._lower_floor(target.queue_id) then
            return next row('floor lowered', target.queue, 1)::pgq.cleanup_report;
        end if;
    end loop;
end
$$;

comment on function pgq._sweep_jobs(timestamptz) is
'The part of cleanup that looks, queue by queue, for jobs that lost their worker on their last
attempt, and for jobs that no claim would find.';
