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
as $$
#variable_conflict use_column
declare
    target record;
    owner_attempt text;
    content_digest bigint;
    contents bytea[];
    is_whole boolean;
    documents jsonb[];
    size integer;
    is_new boolean;
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
        raise exception 'only keys, headers, labels, partition, priority and delay may be null'
            using errcode = '22004';
    end if;
    if least(write_chunk.task, write_chunk.chunk) < 0 then
        raise exception 'tasks and chunks are numbered from 0'
            using errcode = '22023';
    end if;

    select w.bulk_write_id, w.atomic, w.committed_at, s.write_id, t.topic, t.partitions, q.queue
    into target
    from pgq.bulk_write as w
    left join pgq.staged_write as s on s.write_id = w.write_id
    left join pgq.topic as t on t.topic_id = w.topic_id
    left join pgq.queue as q on q.queue_id = w.queue_id
    where w.write_id = write_chunk.write_id;

    if target.bulk_write_id is null
        or target.committed_at is not null
        or num_nonnulls(target.topic, target.queue) = 0
        or (target.atomic and target.write_id is null)
    then
        perform pgq._fail_write_lost(
            write_chunk.write_id,
            case
                when target.bulk_write_id is null
                    then 'It was never begun, was begun anew by others, aborted or forgotten.'
                when target.committed_at is not null
                    then 'It has been committed; this attempt to write comes too late.'
                when num_nonnulls(target.topic, target.queue) = 0
                    then 'Its topic or queue was dropped.'
                else 'The server crashed, and what was staged is gone.'
            end
        );
    end if;

    if target.topic is null and write_chunk.partition is not null
        or target.queue is null
        and num_nonnulls(write_chunk.labels, write_chunk.priority, write_chunk.delay) > 0
    then
        raise exception 'labels, priority and delay are for jobs, partition is for messages'
            using errcode = '22023';
    end if;
    if write_chunk.partition not between 0 and target.partitions - 1 then
        perform pgq._fail_unknown_partition(
            target.topic, write_chunk.partition, target.partitions
        );
    end if;

    if target.atomic then
        -- The first attempt of a task that commits is the one that counts. Another one waits here
        -- until that is decided.
        insert into pgq.staged_task (write_id, task, task_attempt)
        values (write_chunk.write_id, write_chunk.task, write_chunk.task_attempt)
        on conflict do nothing;

        if not found then
            select k.task_attempt
            into owner_attempt
            from pgq.staged_task as k
            where k.write_id = write_chunk.write_id
                and k.task = write_chunk.task;

            if owner_attempt is distinct from write_chunk.task_attempt then
                return false;
            end if;
        end if;
    else
        -- The lock lets commit_write wait for this chunk, and this chunk see that it comes too
        -- late.
        perform
        from pgq.bulk_write as w
        where w.write_id = write_chunk.write_id
            and w.committed_at is null
        for share;

        if not found then
            perform pgq._fail_write_lost(
                write_chunk.write_id, 'It was committed, begun anew or aborted meanwhile.'
            );
        end if;

        content_digest := hash_record_extended(
            row(
                write_chunk.packed,
                write_chunk.lengths,
                write_chunk.keys,
                write_chunk.headers,
                write_chunk.labels,
                write_chunk.partition,
                write_chunk.is_json
            ),
            0
        );

        insert into pgq.published_chunk (
            bulk_write_id, task, chunk, messages, digest, write_id
        )
        values (
            target.bulk_write_id,
            write_chunk.task,
            write_chunk.chunk,
            cardinality(write_chunk.lengths),
            content_digest,
            write_chunk.write_id
        )
        on conflict do nothing;

        if not found then
            update pgq.published_chunk as p
            set write_id = write_chunk.write_id
            where p.bulk_write_id = target.bulk_write_id
                and p.task = write_chunk.task
                and p.chunk = write_chunk.chunk
                and p.digest = content_digest;

            if not found then
                raise exception 'chunk % of task % was written before with other contents',
                    write_chunk.chunk, write_chunk.task
                    using errcode = '22023',
                        detail = 'A repeated task must make the same chunks; this one did not.',
                        hint = 'What was published stays. For input that is not the same each '
                            'time, begin new writes as atomic ones.';
            end if;
            return false;
        end if;
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

    if not is_new
        and not exists (
            select
            from pgq.staged_chunk as c
            where c.write_id = write_chunk.write_id
                and c.task = write_chunk.task
                and c.chunk = write_chunk.chunk
                and (
                    not is_whole
                    or c.packed = write_chunk.packed and c.lengths = write_chunk.lengths
                )
                and c.payloads is not distinct from documents
                and c.bodies is not distinct from contents
                and c.keys is not distinct from write_chunk.keys
                and c.headers is not distinct from write_chunk.headers
                and c.labels is not distinct from write_chunk.labels
                and c.partition is not distinct from write_chunk.partition
        )
    then
        raise exception 'chunk % of task % was written before with other contents',
            write_chunk.chunk, write_chunk.task
            using errcode = '22023',
                detail = 'One attempt to run the task gave two chunks the same number.';
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
The view write_chunks does the same for those who can only insert.
Errors: MQ008 the write was committed, begun anew, aborted or forgotten, its topic or queue was
dropped, or the server crashed, MQ007 unknown partition,
22004 a null, 22023 bad arguments, or the chunk was written before with other contents, 22P02 or
22021 contents that are no JSON, 40001 under REPEATABLE READ or SERIALIZABLE when another attempt
was first, and those of publish_batch and enqueue_batch.';
