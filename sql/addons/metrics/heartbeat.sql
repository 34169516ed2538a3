create function pgq.heartbeat(
    worker text,
    kind text default 'worker',
    host text default null,
    pid integer default null,
    sources text[] default '{}',
    running integer default 0,
    started_at timestamptz default null,
    details jsonb default null,
    beat interval default null
)
returns void
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
    now_at timestamptz := pgq._clock();
    sender text := pgq._caller();
begin
    perform pgq._check_worker(worker collate "C");
    perform pgq._check_name('kind', coalesce(kind, 'worker') collate "C");
    perform pgq._check_count('running', coalesce(running, 0), 0, 2147483647);
    if beat is not null then
        perform pgq._check_interval('beat', beat, false);
    end if;
    perform pgq._check_heartbeat(host, sources, details);
    if sender is null then
        raise exception 'permission denied for a heartbeat'
            using errcode = '42501',
                hint = 'Functions in indexes and materialized views cannot send one.';
    end if;

    insert into pgq.worker as w (
        role, worker, kind, host, pid, sources, running, details, started_at, last_seen_at, beat
    )
    values (
        sender,
        worker,
        coalesce(kind, 'worker'),
        host,
        pid,
        coalesce(sources, '{}'),
        coalesce(running, 0),
        details,
        coalesce(started_at, now_at),
        now_at,
        beat
    )
    on conflict (role, worker) do update
        set kind = excluded.kind,
            host = excluded.host, pid = excluded.pid, sources = excluded.sources,
            running = excluded.running, details = excluded.details,
            started_at = coalesce(heartbeat.started_at, w.started_at),
            last_seen_at = excluded.last_seen_at, beat = excluded.beat;
end
$$;

comment on function pgq.heartbeat(
    text, text, text, integer, text[], integer, timestamptz, jsonb, interval
) is
'Records that a worker is alive, and what it is doing; list_workers and metrics show it.
Call it about every 10 s, under a unique name such as host:pid:number. Any process may send
heartbeats: pgq does not depend on them, and they do not extend leases. Names belong to the calling
role: another role with the same name gets its own row. sources are the queues or topics that the
worker works on, running is the number of jobs or messages that it is working on. details is any
JSON; only the role itself, and callers that may see all topics and queues, can read it. beat: the
time until the next heartbeat, for a worker that sends them less often. The call waits at most 1 s
for a lock. cleanup removes workers that have sent no heartbeat for a day.
Errors: 22004 a required argument is null, 22023 a bad argument, such as details of more than 8192
characters, more than 1000 sources, or sources of more than 16 KiB of characters together, 40001
above READ COMMITTED when another transaction was first (try again), 42501 no permission, 55P03
waited 1 s for a lock (call it again).';
