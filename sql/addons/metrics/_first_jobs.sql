create function pgq._first_jobs(queue_ids bigint[], now_at timestamptz, most integer)
returns table (
    queue_id bigint,
    ready numeric,
    leased numeric,
    delayed numeric,
    retrying numeric,
    more_ready boolean,
    more_later boolean
)
language plpgsql stable parallel safe
as $$
declare
    later timestamptz := now_at + interval '1 microsecond';
begin
    -- Begin at the low-water marks (floors), as claims do: below them there may be many dead index
    -- entries.
    return query
    select
        q.queue_id, sum(k.seen) filter (where b.due), sum(k.leased) filter (where not b.due),
        sum(k.seen - k.leased) filter (where not b.due), sum(k.retrying),
        bool_or(k.seen = most) filter (where b.due), bool_or(k.seen = most) filter (where not b.due)
    from unnest(queue_ids) as q (queue_id)
    cross join lateral pgq._queue_floors(q.queue_id) as f
    cross join lateral (
        values (true, f.floor_time, later), (false, later, 'infinity')
    ) as b (due, lowest, until)
    cross join lateral (
        select
            count(*) as seen, count(*) filter (where j.lease_token is not null) as leased,
            count(*) filter (where j.last_error is not null or j.attempt > 1) as retrying
        from (
            select j.lease_token, j.last_error, j.attempt
            from pgq.job as j
            where j.queue_id = q.queue_id
                and j.priority = f.priority
                and j.visible_at >= b.lowest
                and j.visible_at < b.until
            order by j.visible_at, j.job_id
            limit most
        ) as j
    ) as k
    group by q.queue_id;
end
$$;

comment on function pgq._first_jobs(bigint[], timestamptz, integer) is
'Counts by index the first jobs of each queue and priority, and the first that are not due.
The argument limits each count. more_ready, more_later: there may be more of these.';
