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
    last boolean default false
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
    content_digest bigint;
    owner_attempt text;
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

    select w.bulk_write_id, w.atomic, w.committed_at, t.topic, q.queue
    into target
    from pgq.bulk_write as w
    left join pgq.topic as t on t.topic_id = w.topic_id
    left join pgq.queue as q on q.queue_id = w.queue_id
    where w.write_id = write_chunk.write_id;

    if target.bulk_write_id is null or target.committed_at is not null then
        perform pgq._fail_write_lost(
            write_chunk.write_id,
            case
                when target.bulk_write_id is null
                    then 'It was never begun, was begun anew by others, aborted or forgotten.'
                else 'It has been committed; this attempt to write comes too late.'
            end
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

        insert into pgq.staged_chunk (
            write_id,
            task,
            chunk,
            partition,
            priority,
            delay,
            is_json,
            packed,
            lengths,
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
            write_chunk.is_json,
            write_chunk.packed,
            write_chunk.lengths,
            write_chunk.keys,
            write_chunk.headers,
            write_chunk.labels
        );

        if write_chunk.last then
            update pgq.staged_task as k
            set messages = (
                select sum(cardinality(c.lengths))
                from pgq.staged_chunk as c
                where c.write_id = write_chunk.write_id
                    and c.task = write_chunk.task
            )
            where k.write_id = write_chunk.write_id
                and k.task = write_chunk.task;
        end if;
        return true;
    end if;

    -- The lock lets commit_write wait for this chunk, and this chunk see that it comes too late.
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
            write_chunk.partition
        ),
        0
    );

    insert into pgq.published_chunk (bulk_write_id, task, chunk, messages, digest)
    values (
        target.bulk_write_id,
        write_chunk.task,
        write_chunk.chunk,
        cardinality(write_chunk.lengths),
        content_digest
    )
    on conflict do nothing;

    if not found then
        if not exists (
            select
            from pgq.published_chunk as p
            where p.bulk_write_id = target.bulk_write_id
                and p.task = write_chunk.task
                and p.chunk = write_chunk.chunk
                and p.digest = content_digest
        ) then
            raise exception 'chunk % of task % was written before with other contents',
                write_chunk.chunk, write_chunk.task
                using errcode = '22023',
                    detail = 'A repeated task must make the same chunks again; this one did not.',
                    hint = 'Make the input deterministic, or use an atomic write.';
        end if;
        return false;
    end if;

    perform pgq._write_packed(
        target.topic,
        target.queue,
        write_chunk.packed,
        write_chunk.lengths,
        write_chunk.keys,
        write_chunk.headers,
        write_chunk.labels,
        write_chunk.partition,
        write_chunk.priority,
        write_chunk.delay,
        write_chunk.is_json
    );
    return true;
end
$$;

comment on function pgq.write_chunk(
    uuid, integer, text, integer, bytea, integer[], text[], jsonb[], text[], integer, integer,
    interval, boolean, boolean
) is
'Adds a chunk of messages to a bulk write; false when it has been written already.
packed holds the contents one behind the other, lengths their lengths in bytes; they are JSON texts
when is_json is set, else raw bytes. keys, headers and labels are as in publish_batch and
enqueue_batch. task and chunk number the chunks from 0; task_attempt is different for each attempt
to run the task. In an atomic write all chunks of an attempt must be in one transaction, the last
one marked as last; when several attempts of a task commit, the first one counts. Else each chunk is
published in the transaction of its call, once for each task and chunk: a repeated task has to make
the same chunks. The view write_chunks does the same for those who can only insert.
Errors: MQ008 the write was committed, begun anew, aborted or forgotten, MQ007 unknown partition,
22004 a null, 22023 bad arguments, or the chunk was written before with other contents.';
