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
    stale boolean
)
language plpgsql
stable
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    patience interval := coalesce(list_workers.seen_within, '1 minute');
begin
    perform pgq._check_interval('seen_within', patience, false);

    return query
    select
        w.worker,
        w.kind,
        w.host,
        w.pid,
        array(
            select s.source
            from unnest(w.sources) with ordinality as s (source, place)
            where pgq._may_use(s.source, s.source, 'monitor')
            order by s.place
        ),
        w.running,
        w.details,
        w.started_at,
        w.last_seen_at,
        w.last_seen_at < pgq._clock() - patience
    from pgq.worker as w
    order by w.worker;
end
$$;

comment on function pgq.list_workers(interval) is
'The workers that have told of themselves by heartbeat, by name; stale: not within this time.
One that ended in order has been forgotten. A stale one was killed, or has lost its connection; what
it held is handed out again when its leases end. Of its sources the caller sees those to which he
has access.
Errors: 22023 a bad argument.';
