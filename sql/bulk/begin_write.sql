create function pgq.begin_write(
    topic text default null,
    queue text default null,
    producer text default null,
    seq bigint default null,
    atomic boolean default true,
    timeout interval default '1 day'
)
returns setof pgq.bulk_write_state
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set lock_timeout = '60s'
as $$
declare
    wanted pgq.bulk_write;
    known pgq.bulk_write;
    time_limit interval := coalesce(timeout, '1 day');
begin
    perform pgq._check_interval('timeout', time_limit, false);
    wanted := pgq._wanted_write(topic collate "C", queue, producer, seq, coalesce(atomic, true));

    -- Somebody else may add it, or remove it, between the look and the insert.
    loop
        known := pgq._known_write(wanted);
        exit when known.bulk_write_id is not null;

        known := pgq._add_write(wanted, time_limit);
        if known.bulk_write_id is not null then
            return next row(known.write_id, null, null, false)::pgq.bulk_write_state;
            return;
        end if;
    end loop;

    if known.committed_at is null then
        known := pgq._restart_write(known, wanted.atomic, time_limit);
    end if;
    return next row(
        known.write_id, known.messages, known.committed_at, known.committed_at is not null
    )::pgq.bulk_write_state;
end
$$;

comment on function pgq.begin_write(text, text, text, bigint, boolean, interval) is
'Begins a write of many writers to a topic or a queue, and returns the id that they all write with.
Commit the transaction of this call before the writers start: until then they do not see the write.
They add chunks with write_chunk; commit_write ends the write, abort_write gives it up. atomic: true
(the default) to stage the chunks, so that all messages are seen at once when the write is
committed; false to publish each chunk as soon as it comes.
producer and seq name the write, so that pgq knows it when it is begun a second time. If it was
committed before, the result has duplicate = true, and there is nothing to do. If it is still open,
it starts again under a new id: writers that come with the old id are refused, and chunks that were
published already are left out. Nobody waits for writers that still have a transaction open under
the old id: what they stage is never published, and what they publish counts as published before.
The newest 1000 writes of a producer are remembered for each topic and queue.
timeout: cleanup forgets a write that is not committed for so long (by default 1 day). The chunks
that it published stay in the topic or queue, and are published again if the write is begun again.
Errors: MQ001 unknown topic, MQ002 unknown queue, 22004 neither topic nor queue is given, 22023
both are, producer without seq or seq without producer, a bad timeout, a seq that is older than
what is remembered, or a write that was begun with another value of atomic, 40001 above READ
COMMITTED when another transaction was first (try again), 55P03 waited 60 s for a lock (call it
again).';
