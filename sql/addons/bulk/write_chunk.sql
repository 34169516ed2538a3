create function pgq.write_chunk(
    write_id uuid,
    task integer,
    task_attempt text,
    chunk integer,
    lengths integer[],
    packed_payloads bytea default null,
    keys text[] default null,
    headers jsonb[] default null,
    partition integer default null,
    delay interval default null,
    priority integer default null,
    labels text[] default null,
    last_chunk boolean default false,
    starts integer[] default null,
    packed_bodies bytea default null
)
returns boolean
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set lock_timeout = '60s'
as $$
declare
    target pgq._write_target := pgq._find_write(write_id);
    is_new boolean;
    largest bigint;
    is_large boolean;
begin
    perform pgq._keep_memory();

    -- Elements are accessed by subscripts from 1: normalise arrays with another lower bound.
    lengths := lengths[:];
    keys := keys[:];
    headers := headers[:];
    starts := starts[:];
    perform pgq._check_chunk(
        task, task_attempt collate "C", chunk, lengths, packed_payloads, packed_bodies
    );
    perform pgq._check_chunk_options(target, partition, delay, priority, labels collate "C");
    if target.atomic and not pgq._note_task(write_id, task, task_attempt collate "C") then
        return false;
    end if;

    -- A payload has up to six times as many bytes as its JSON text, as [1,1,1] has, and is sent to
    -- readers as text with up to 16384 times as many, as [1e131071] is.
    largest := pgq._largest(lengths, keys, headers);
    if packed_payloads is not null then
        largest := 6 * largest + 32;
    end if;
    is_large := largest > least(
        target.max_message_bytes, case when packed_payloads is null then 98304 else 196608 end
        )
        or pg_column_size(headers) > 8192
        and (select max(pg_column_size(h.header)) from unnest(headers) as h (header)) > 8192;
    if is_large
        -- The limit may have been lowered since the chunk was written.
        and not exists (
            select
            from pgq.published_chunk as p
            where p.bulk_write_id = target.bulk_write_id
                and p.task = write_chunk.task
                and p.chunk = write_chunk.chunk
        )
        and not exists (
            select
            from pgq.staged_chunk as s
            where s.write_id = write_chunk.write_id
                and s.task = write_chunk.task
                and s.chunk = write_chunk.chunk
        )
    then
        perform pgq._check_size(
            target.topic, target.queue, null, pgq._unpack_payloads(packed_payloads, lengths),
            keys collate "C", headers, pgq._unpack(packed_bodies, lengths)
        );
    end if;

    if not target.atomic then
        return pgq._publish_chunk(
            target, write_id, task, chunk, lengths, packed_payloads, keys collate "C", headers,
            partition, delay, priority, labels, starts, largest, packed_bodies
        );
    end if;

    -- Stage messages of a task with several chunks where they will stay (extents), unless jobs will
    -- point at them. A chunk is staged like the one before it, a repeated one as before.
    if coalesce(
        (
            select c.digest is not null
            from pgq.staged_chunk as c
            where c.write_id = write_chunk.write_id
                and c.task = write_chunk.task
                and c.chunk in (write_chunk.chunk - 1, write_chunk.chunk)
            order by c.chunk desc
            limit 1
        ),
        target.topic is not null
        and (chunk = 0 and last_chunk) is not true
        and not pgq._keeps_snapshot()
        and not exists (select from pgq.subscription as s where s.topic_id = target.topic_id)
    ) then
        is_new := pgq._stage_extent(
            target, write_id, task, chunk, lengths, packed_payloads, keys collate "C", headers,
            partition, starts, largest, packed_bodies
        );
    else
        is_new := pgq._stage_chunk(
            target, write_id, task, chunk, lengths, packed_payloads, keys collate "C", headers,
            partition, delay, priority, labels, starts, packed_bodies
        );
    end if;
    if last_chunk then
        -- commit_write notices a missing chunk by this number.
        update pgq.staged_task as k
        set
            staged_at = pgq._clock(),
            messages = (
                select sum(c.messages)
                from pgq.staged_chunk as c
                where c.write_id = write_chunk.write_id and c.task = write_chunk.task
            )
        where k.write_id = write_chunk.write_id and k.task = write_chunk.task;
    end if;
    return is_new;
end
$$;

comment on function pgq.write_chunk(
    uuid, integer, text, integer, integer[], bytea, text[], jsonb[], integer, interval, integer,
    text[], boolean, integer[], bytea
) is
'Adds a chunk to a bulk write; false when it was written before, MQ008 when the write is lost.
Pass packed_payloads (JSON texts) or packed_bodies (raw bytes), not both: the contents of all
messages, concatenated without separators. lengths: the length of each content, in bytes. keys,
headers, partition, delay, priority and labels are as in publish_batch and enqueue_batch. task and
chunk are numbers from 0: a task numbers its own chunks. task_attempt is a text that is different
for each attempt to run the task.
In an atomic write, an attempt writes all its chunks in one transaction, and sets last_chunk in the
last one. If several attempts of a task commit, only the first one counts. In a write that is not
atomic, each chunk is published in the transaction of this call, once for each task and chunk: a
task that runs again must write the same chunks.
starts: the position of the first byte of each content, counted from 1; null: computed from lengths,
which takes time. Each content must start where the previous one ends; this is not checked for every
message.
The call waits while another open transaction has written the same chunk, or in an atomic write the
same task: the end of that transaction decides which of the two counts. It waits at most 60 s for
each lock, even when the lock_timeout of the session is longer. After a timeout, roll back and call
it again, or end the session that holds the lock (see pg_blocking_pids). Clients that can only
insert rows use the view write_chunks instead.
Errors: MQ007 unknown partition, MQ008 the write was committed, started again, aborted or
forgotten, or its topic or queue was dropped, 22003 a number in a payload is
beyond what the database can have, 22004 a required argument is null, no contents, or a null is in
lengths or starts, 22021 a payload is not text in the encoding of the database, 22023 bad arguments,
a message that is too large, both kinds of contents, jobs that would expire before they are due, or
another chunk was written under the same numbers, 22P02 or 22P05 a payload is not JSON, 40001 above
READ COMMITTED when another transaction was first (try again), 54001 a payload is nested too deeply,
55P03 waited 60 s for a lock (call it again), and those of publish_batch and enqueue_batch.';
