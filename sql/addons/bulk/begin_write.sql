create function pgq.begin_write(
    topic text default null,
    queue text default null,
    producer text default null,
    seq bigint default null,
    atomic boolean default true,
    timeout interval default '1 day',
    owner text default null
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
begin
    timeout := coalesce(timeout, '1 day');
    perform pgq._check_interval('timeout', timeout, false);
    wanted := pgq._wanted_write(
        topic collate "C", queue, producer, seq, coalesce(atomic, true), owner
    );

    -- Race: another transaction may add or remove the write between the look-up and the insert.
    loop
        known := pgq._known_write(wanted);
        if known.bulk_write_id is null then
            known := pgq._add_write(wanted, timeout);
        elsif known.committed_at is null then
            known := pgq._restart_write(known, wanted.atomic, timeout);
        end if;
        exit when known.bulk_write_id is not null;
    end loop;

    return next row(
        known.write_id, known.messages, known.committed_at, known.committed_at is not null,
        case
            when known.committed_at is null then coalesce(
                (select t.max_message_bytes from pgq.topic as t where t.topic_id = known.topic_id),
                (select q.max_message_bytes from pgq.queue as q where q.queue_id = known.queue_id)
            )
        end
    )::pgq.bulk_write_state;
end
$$;

comment on function pgq.begin_write(text, text, text, bigint, boolean, interval, text) is
'Begins a bulk write to a topic or a queue, and returns the id that all its writers pass.
Commit the transaction of this call before the writers start: until then they do not see the write.
Writers add chunks with write_chunk; commit_write ends the write, abort_write gives it up. atomic:
true (the default) stages the chunks, and the commit makes all messages visible at once; false
publishes each chunk in the transaction that writes it.
producer and seq identify the write when it is begun again. If it was committed before, the result
has duplicate = true, and nothing is left to do. If it is still open, it starts again under a new
id: writers with the old id are refused, and chunks that were published already are skipped. The
call does not wait for writers that still have a transaction open under the old id: chunks that they
stage are never published, and chunks that they publish count as published before. The newest 1000
writes of a producer are remembered for each topic and queue.
timeout: cleanup forgets a write that is not committed within this time (default 1 day). In an
atomic write, each task that is staged starts the time again, and an open chunk keeps the write. The
chunks that it published stay in the topic or queue, and are published again if the write is begun
again.
owner: the name of a job whose tasks each begin an unnamed write, in place of producer. seq is then
the attempt to run the job, larger for each later one, so that abort_write can abort the writes of
earlier attempts.
Errors: MQ001 unknown topic, MQ002 unknown queue, 22004 neither topic nor queue is given, 22023
both are, seq without producer or owner or one of these without seq, both of them, a bad timeout, a
seq that is older than what is remembered, or a write that was begun with another value of atomic,
40001 above READ COMMITTED when another transaction was first (try again), 55P03 waited 60 s for a
lock (call it again).';
