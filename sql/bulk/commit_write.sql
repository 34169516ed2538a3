create function pgq.commit_write(write_id uuid, expected_messages bigint default null)
returns pgq.bulk_write_state
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
    target pgq.bulk_write;
    topic_name text;
    queue_name text;
    partition_count integer;
    total bigint;
    stale_task integer;
    chunk record;
begin
    -- An old snapshot would not show all that was staged, and the rest would be lost.
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        raise exception 'commit_write needs READ COMMITTED'
            using errcode = '25001',
                hint = 'Call it in a transaction of that isolation level.';
    end if;

    -- Attempts that begin it anew, and chunks that are published, wait for this one or are waited
    -- for.
    select w.*
    into target
    from pgq.bulk_write as w
    where w.write_id = commit_write.write_id
    for update;

    if target.bulk_write_id is null then
        perform pgq._fail_write_lost(
            commit_write.write_id,
            'It was never begun, was begun anew by others, aborted or forgotten.'
        );
    end if;

    if target.committed_at is not null then
        return row(target.write_id, target.messages, target.committed_at, true)
            ::pgq.bulk_write_state;
    end if;

    if target.atomic then
        if not exists (
            select from pgq.staged_write as s where s.write_id = target.write_id
        ) then
            perform pgq._fail_write_lost(
                target.write_id, 'The server crashed, and what was staged is gone.'
            );
        end if;

        select coalesce(sum(k.messages), 0)
        into total
        from pgq.staged_task as k
        where k.write_id = target.write_id;

        perform pgq._fail_write_lost(
            target.write_id,
            format(
                'Task %s staged %s of %s messages: its last chunk never came, or its chunks were '
                'in several transactions.',
                k.task, coalesce(s.messages, 0), coalesce(k.messages::text, 'unknown')
            )
        )
        from pgq.staged_task as k
        cross join lateral (
            select sum(c.messages) as messages
            from pgq.staged_chunk as c
            where c.write_id = k.write_id
                and c.task = k.task
        ) as s
        where k.write_id = target.write_id
            and s.messages is distinct from k.messages
        order by k.task
        limit 1;
    else
        select
            coalesce(sum(p.messages), 0),
            min(p.task) filter (where p.write_id <> target.write_id)
        into total, stale_task
        from pgq.published_chunk as p
        where p.bulk_write_id = target.bulk_write_id;

        if stale_task is not null then
            raise exception 'bulk write % was divided in another way before', target.write_id
                using errcode = '22023',
                    detail = format(
                        'An earlier attempt published chunks of task %s that this one did not '
                        'write; their messages may have been published twice.', stale_task
                    ),
                    hint = 'A repeated write must have the same tasks and chunks. For input that '
                        'may be divided differently, begin new writes as atomic ones.';
        end if;
    end if;

    if total <> commit_write.expected_messages then
        raise exception 'bulk write % has another number of messages than expected', target.write_id
            using errcode = '22023',
                detail = format(
                    'Expected: %s; written: %s.', commit_write.expected_messages, total
                ),
                hint = case
                    when target.atomic then 'Nothing was published.'
                    else 'The chunks that came have been published.'
                end;
    end if;

    if target.atomic then
        select t.partitions
        into partition_count
        from pgq.topic as t
        where t.topic_id = target.topic_id;

        -- In ascending order, as everywhere; the chunks then come in any.
        perform
        from pgq.partition as p
        where p.topic_id = target.topic_id
            and (
                p.partition in (
                    select coalesce(c.partition, c.task % partition_count)
                    from pgq.staged_chunk as c
                    where c.write_id = target.write_id
                )
                or exists (
                    select
                    from pgq.staged_chunk as c
                    where c.write_id = target.write_id
                        and c.partition is null
                        and c.keys is not null
                )
            )
        order by p.partition
        for no key update;

        -- Only now: a topic whose partitions are locked cannot be dropped and made anew.
        select t.topic
        into topic_name
        from pgq.topic as t
        where t.topic_id = target.topic_id;

        select q.queue
        into queue_name
        from pgq.queue as q
        where q.queue_id = target.queue_id;

        if num_nonnulls(topic_name, queue_name) = 0 then
            perform pgq._fail_write_lost(target.write_id, 'Its topic or queue was dropped.');
        end if;

        for chunk in
            select c.*
            from pgq.staged_chunk as c
            where c.write_id = target.write_id
            order by c.task, c.chunk
        loop
            if chunk.packed is not null then
                perform pgq._publish_packed(
                    topic_name,
                    chunk.packed,
                    chunk.starts,
                    chunk.lengths,
                    chunk.keys,
                    chunk.headers,
                    coalesce(chunk.partition, chunk.task % partition_count)
                );
                continue;
            end if;

            perform pgq._write_messages(
                topic_name,
                queue_name,
                chunk.payloads,
                chunk.bodies,
                chunk.keys,
                chunk.headers,
                chunk.labels,
                case
                    when chunk.partition is null and chunk.keys is null
                        then chunk.task % partition_count
                    else chunk.partition
                end,
                chunk.priority,
                chunk.delay
            );
        end loop;

        perform pgq._forget_staged(target.write_id);
    else
        delete from pgq.published_chunk as p
        where p.bulk_write_id = target.bulk_write_id;
    end if;

    update pgq.bulk_write as w
    set
        committed_at = pgq._clock(),
        messages = total
    where w.bulk_write_id = target.bulk_write_id
    returning w.committed_at
    into target.committed_at;

    -- What is older than the newest 1000 is forgotten, but for this one, which may be asked for
    -- again; begin_write refuses the others from then on.
    delete from pgq.bulk_write as w
    where w.producer = target.producer
        and coalesce(w.topic_id, 0) = coalesce(target.topic_id, 0)
        and coalesce(w.queue_id, 0) = coalesce(target.queue_id, 0)
        and w.committed_at is not null
        and w.bulk_write_id <> target.bulk_write_id
        and w.seq < (
            select n.seq
            from pgq.bulk_write as n
            where n.producer = target.producer
                and coalesce(n.topic_id, 0) = coalesce(target.topic_id, 0)
                and coalesce(n.queue_id, 0) = coalesce(target.queue_id, 0)
                and n.committed_at is not null
            order by n.seq desc
            offset 999
            limit 1
        );

    return row(target.write_id, total, target.committed_at, false)::pgq.bulk_write_state;
end
$$;

comment on function pgq.commit_write(uuid, bigint) is
'Ends a bulk write; what was staged for an atomic one is published, all at once.
The partitions written to are locked for other publishers from here to the end of the transaction.
Within a task messages keep their order, and tasks follow each other by number; messages without
key and partition go to the partition task modulo the number of partitions. Repeating the call is
harmless: the result says repeated. With expected_messages, another number is refused. From now on
chunks of late writers are refused.
Errors: MQ008 the write was begun anew, aborted or forgotten, its topic or queue was dropped, or a
part of what was staged is not there (begin it anew), 22004 no write_id, 22023 another number of
messages than expected, or a write that is not atomic was begun anew and made other chunks, 25001
not under READ COMMITTED, and those of publish_batch and enqueue_batch.';
