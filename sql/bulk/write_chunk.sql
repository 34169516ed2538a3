create function pgq.write_chunk(
    write_id uuid,
    task integer,
    task_attempt text,
    chunk integer,
    packed bytea,
    lengths integer[],
    keys text[] default null,
    headers jsonb[] default null,
    labels text[] default null,
    partition integer default null,
    priority integer default null,
    delay interval default null,
    is_json boolean default false,
    last boolean default false,
    starts integer[] default null
)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set lock_timeout = '60s'
as $$
#variable_conflict use_column
declare
    target pgq._write_target;
    contents bytea[];
    documents jsonb[];
    is_whole boolean;
    is_new boolean;
    size integer;
begin
    if num_nulls(
        write_chunk.task,
        write_chunk.task_attempt,
        write_chunk.chunk,
        write_chunk.packed,
        write_chunk.lengths,
        write_chunk.is_json,
        write_chunk.last
    ) > 0 then
        raise exception 'a chunk has a null where none is allowed'
            using errcode = '22004',
                detail = 'Only keys, headers, labels, partition, priority, delay and starts may be '
                    'null.';
    end if;
    if least(write_chunk.task, write_chunk.chunk) < 0 then
        raise exception 'tasks and chunks are numbered from 0'
            using errcode = '22023';
    end if;

    target := pgq._find_write(write_chunk.write_id);
    perform pgq._check_chunk(
        target,
        write_chunk.partition,
        write_chunk.labels,
        write_chunk.priority,
        write_chunk.delay
    );

    if target.atomic then
        is_new := pgq._note_task(
            write_chunk.write_id, write_chunk.task, write_chunk.task_attempt
        );
    else
        is_new := pgq._note_chunk(
            write_chunk.write_id,
            target,
            write_chunk.task,
            write_chunk.chunk,
            cardinality(write_chunk.lengths),
            hash_record_extended(
                row(
                    write_chunk.packed,
                    write_chunk.lengths,
                    write_chunk.keys,
                    write_chunk.headers,
                    write_chunk.labels,
                    write_chunk.partition,
                    coalesce(write_chunk.priority, 0),
                    write_chunk.delay,
                    write_chunk.is_json
                ),
                0
            )
        );
    end if;
    if not is_new then
        return false;
    end if;

    -- Where all messages go to one partition as they are, and the writer tells where each begins,
    -- the chunk can stay as it is until they are stored: that takes least time.
    is_whole := write_chunk.starts is not null
        and target.topic is not null
        and not write_chunk.is_json
        and (write_chunk.keys is null or write_chunk.partition is not null)
        and current_setting('transaction_isolation') not in ('repeatable read', 'serializable');

    if is_whole then
        size := pgq._check_packed(
            write_chunk.packed,
            write_chunk.starts,
            write_chunk.lengths,
            write_chunk.keys,
            write_chunk.headers
        );
    else
        contents := pgq._unpack(write_chunk.packed, write_chunk.lengths);
        if write_chunk.is_json then
            documents := array(
                select convert_from(b.body, 'UTF8')::jsonb
                from unnest(contents) with ordinality as b (body, place)
                order by b.place
            );
            contents := null;
        end if;
    end if;

    if not target.atomic then
        if is_whole then
            perform pgq._publish_packed(
                target.topic,
                write_chunk.packed,
                write_chunk.starts,
                write_chunk.lengths,
                write_chunk.keys,
                write_chunk.headers,
                write_chunk.partition
            );
        else
            perform pgq._write_messages(
                target.topic,
                target.queue,
                documents,
                contents,
                write_chunk.keys,
                write_chunk.headers,
                write_chunk.labels,
                write_chunk.partition,
                write_chunk.priority,
                write_chunk.delay
            );
        end if;
        perform pgq._check_target(write_chunk.write_id, target.topic_id, target.queue_id);
        return true;
    end if;

    -- What is wrong with it is told now, to the task that made it, and not to commit_write.
    size := coalesce(
        size,
        pgq._check_batch(
            documents, contents, write_chunk.keys, write_chunk.headers, write_chunk.labels
        )
    );

    insert into pgq.staged_chunk (
        write_id,
        task,
        chunk,
        partition,
        priority,
        delay,
        messages,
        packed,
        starts,
        lengths,
        payloads,
        bodies,
        keys,
        headers,
        labels
    )
    values (
        write_chunk.write_id,
        write_chunk.task,
        write_chunk.chunk,
        write_chunk.partition,
        write_chunk.priority,
        write_chunk.delay,
        size,
        case when is_whole then write_chunk.packed end,
        case when is_whole then write_chunk.starts end,
        case when is_whole then write_chunk.lengths end,
        documents,
        contents,
        write_chunk.keys,
        write_chunk.headers,
        write_chunk.labels
    )
    on conflict do nothing;
    is_new := found;

    if not is_new then
        perform pgq._check_staged(
            write_chunk.write_id,
            write_chunk.task,
            write_chunk.chunk,
            documents,
            case
                when is_whole then pgq._unpack(write_chunk.packed, write_chunk.lengths)
                else contents
            end,
            write_chunk.keys,
            write_chunk.headers,
            write_chunk.labels,
            write_chunk.partition,
            write_chunk.priority,
            write_chunk.delay
        );
    end if;

    if write_chunk.last then
        update pgq.staged_task as k
        set messages = (
            select sum(c.messages)
            from pgq.staged_chunk as c
            where c.write_id = write_chunk.write_id
                and c.task = write_chunk.task
        )
        where k.write_id = write_chunk.write_id
            and k.task = write_chunk.task;
    end if;
    return is_new;
end
$$;

comment on function pgq.write_chunk(
    uuid, integer, text, integer, bytea, integer[], text[], jsonb[], text[], integer, integer,
    interval, boolean, boolean, integer[]
) is
'Adds a chunk of messages to a bulk write; false when it has been written already.
packed holds the contents one behind the other, lengths their lengths in bytes; they are JSON texts
when is_json is set, else raw bytes. starts may tell where each content begins, from 1, which saves
time where a chunk goes to one partition; whoever gives it sees to it that each content begins where
the one before ends. keys, headers and labels are as in publish_batch and enqueue_batch. task and
chunk number the chunks from 0; task_attempt is different for each attempt to run the task. In an
atomic write all chunks of an attempt must be in one transaction, the last one marked as last; when
several attempts of a task commit, the first one counts. Else each chunk is published in the
transaction of its call, once for each task and chunk: a repeated task has to make the same chunks.
A call waits while another transaction is open that wrote the same chunk, or in an atomic write the
same task, since what happens to that decides whether this one counts. It waits 60 s at most for
each lock, whatever the session''s own lock_timeout: then roll back and call it again, or end the
session that is in the way, which pg_blocking_pids tells. The view write_chunks does the same for
those who can only insert.
Errors: MQ008 the write was committed, started again, aborted or forgotten, its topic or queue was
dropped, or the server crashed, MQ007 unknown partition,
22004 a null, 22023 bad arguments, jobs that would expire before they are due, or the chunk was
written before with other contents, 22P02, 22P05 or 22021 contents that are no JSON, 55P03 waited
60 s in vain, 40001 under REPEATABLE READ or SERIALIZABLE when another transaction was first, and
those of publish_batch and enqueue_batch.';
