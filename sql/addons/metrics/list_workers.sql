create function pgq.list_workers(seen_within interval default '1 minute')
returns table (
    worker text,
    kind text,
    host text,
    pid integer,
    sources text[],
    running integer,
    details jsonb,
    started_at timestamptz,
    last_seen_at timestamptz,
    stale boolean,
    role text
)
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
declare
    patience interval := coalesce(seen_within, '1 minute');
    hidden text[] := array(
        select t.topic
        from pgq.topic as t
        where t.restricted
            and (t.topic_id in (select unnest(pgq._visible('topic', 'monitor')))) is not true
        union
        select q.queue
        from pgq.queue as q
        where q.restricted
            and (q.queue_id in (select unnest(pgq._visible('queue', 'monitor')))) is not true
    );
    own text[] := array(
        with roles as materialized (select distinct w.role from pgq.worker as w)

        select r.role
        from roles as r
        where pgq._may(array[r.role])
    );
begin
    perform pgq._check_interval('seen_within', patience, false);

    return query
    select
        w.worker, w.kind, w.host, w.pid,
        case
            when hidden = '{}' then w.sources
            else array(
                select s.source
                from unnest(w.sources) with ordinality as s (source, ordinal)
                left join unnest(hidden) as h (name) on h.name = s.source
                where h.name is null
                order by s.ordinal
            )
        end,
        w.running,
        -- details may have hidden names anywhere, so hide them as a whole.
        case when hidden = '{}' or w.role = any(own) then w.details end, w.started_at,
        w.last_seen_at, w.last_seen_at < pgq._clock() - patience - coalesce(w.beat, '0'), w.role
    from pgq.worker as w
    order by w.worker, w.role;
end
$$;

comment on function pgq.list_workers(interval) is
'Lists the workers that have sent a heartbeat, by name; stale: none within seen_within.
seen_within is 1 minute by default; for a worker that passed beat, it counts from the time of the
next heartbeat. A worker that stopped properly is not listed. A stale worker was killed or has lost
its connection; its jobs are handed out again when their leases end. role is the role that sends the
heartbeats. sources has only those to which the caller has access. details are null for a caller
from whom any topic or queue is hidden, unless it has the privileges of that role.
Errors: 22023 a bad argument.';
