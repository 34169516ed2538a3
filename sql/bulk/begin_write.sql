create function pgq.begin_write(
    topic text default null,
    queue text default null,
    producer text default null,
    seq bigint default null,
    atomic boolean default true,
    timeout interval default '1 day'
)
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
set lock_timeout = '60s'
as $$
#variable_conflict use_column
declare
    target_topic_id bigint;
    target_queue_id bigint;
    known pgq.bulk_write;
    moment timestamptz;
begin
    if (begin_write.topic is null) = (begin_write.queue is null) then
        raise exception 'a bulk write goes either to a topic or to a queue'
            using errcode = case when begin_write.topic is null then '22004' else '22023' end;
    end if;
    if (begin_write.producer is null) <> (begin_write.seq is null) then
        raise exception 'producer and seq go together'
            using errcode = '22023',
                hint = 'Pass both, to have a repeated write recognised, or neither.';
    end if;
    if length(begin_write.producer) not between 1 and 255 then
        raise exception 'argument "producer" must have 1 to 255 characters'
            using errcode = '22023';
    end if;
    if begin_write.atomic is null then
        raise exception 'argument "atomic" must not be null'
            using errcode = '22004';
    end if;
    perform pgq._check_interval('timeout', begin_write.timeout, false);

    if begin_write.topic is not null then
        select t.topic_id into target_topic_id
        from pgq.topic as t
        where t.topic = begin_write.topic;

        if target_topic_id is null then
            perform pgq._fail_unknown_topic(begin_write.topic);
        end if;
    else
        select q.queue_id into target_queue_id
        from pgq.queue as q
        where q.queue = begin_write.queue;

        if target_queue_id is null then
            perform pgq._fail_unknown_queue(begin_write.queue);
        end if;
    end if;

    loop
        select w.*
        into known
        from pgq.bulk_write as w
        where w.producer = begin_write.producer
            and coalesce(w.topic_id, 0) = coalesce(target_topic_id, 0)
            and coalesce(w.queue_id, 0) = coalesce(target_queue_id, 0)
            and w.seq = begin_write.seq;

        -- What is committed stays so, and nobody has to wait to be told.
        if known.committed_at is null and known.bulk_write_id is not null then
            select w.*
            into known
            from pgq.bulk_write as w
            where w.bulk_write_id = known.bulk_write_id
            for update;
        end if;

        exit when known.bulk_write_id is not null;

        moment := pgq._clock();
        insert into pgq.bulk_write (
            topic_id, queue_id, producer, seq, atomic, write_id, begun_at, expires_at
        )
        values (
            target_topic_id,
            target_queue_id,
            begin_write.producer,
            begin_write.seq,
            begin_write.atomic,
            gen_random_uuid(),
            moment,
            moment + begin_write.timeout
        )
        on conflict do nothing
        returning *
        into known;

        if known.bulk_write_id is not null then
            perform pgq._check_remembered(known);

            if known.atomic then
                insert into pgq.staged_write (write_id)
                values (known.write_id);
            else
                insert into pgq.published_write (bulk_write_id)
                values (known.bulk_write_id);
            end if;

            return row(known.write_id, null, null, false)::pgq.bulk_write_state;
        end if;
    end loop;

    if known.committed_at is not null then
        return row(known.write_id, known.messages, known.committed_at, true)::pgq.bulk_write_state;
    end if;

    if known.atomic <> begin_write.atomic then
        raise exception 'write % of producer "%" was begun in the other mode',
            begin_write.seq, begin_write.producer
            using errcode = '22023',
                detail = case when known.atomic then 'It is atomic.' else 'It is not atomic.' end,
                hint = 'Go on in the mode in which it was begun.';
    end if;

    -- Writers of the earlier attempt may still be at it, and none of them is waited for.
    --
    -- Atomic: what they staged belongs to the old id, which nobody can commit any more. What cannot
    -- be removed now is left to cleanup.
    --
    -- Not atomic: their chunks will be published, if their transactions commit. A chunk that comes
    -- again waits for the one that is open, and commit_write for all of them; where one is not
    -- among those of the new attempt, commit_write tells by the number of the attempt. So they
    -- are as good as chunks that were published before this call.
    if known.atomic then
        perform pgq._forget_staged(known.write_id, null);
    end if;

    moment := pgq._clock();
    update pgq.bulk_write as w
    set
        write_id = gen_random_uuid(),
        attempt = w.attempt + 1,
        begun_at = moment,
        expires_at = moment + begin_write.timeout
    where w.bulk_write_id = known.bulk_write_id
    returning w.write_id
    into known.write_id;

    if known.atomic then
        insert into pgq.staged_write (write_id)
        values (known.write_id);
    end if;

    return row(known.write_id, null, null, false)::pgq.bulk_write_state;
end
$$;

comment on function pgq.begin_write(text, text, text, bigint, boolean, interval) is
'Begins a write of many writers to a topic or a queue, and returns the id that they write with.
Commit it before they begin. They add chunks with write_chunk; commit_write ends it, abort_write
gives it up. An atomic write is staged, and seen all at once when it is committed; else each chunk
is published as it comes. With producer and seq a repeated write is recognised: when it was
committed before, the result says so (repeated) and there is nothing to do. When it is still open,
it is started again under a new id: writers that come with the old id are refused, and chunks that
were published already are left out. Writers of the old id that are in the middle of a transaction
are not waited for: what they stage is never published, and what they publish counts as published
before. The newest 1000 writes of a producer are remembered for each topic and queue. A write that
is not committed within the timeout is forgotten by cleanup; what chunks of it published stays, and
is published a second time when the write is started again after that.
Errors: MQ001 unknown topic, MQ002 unknown queue, 22004 no topic or queue, or a null, 22023 both,
producer without seq, a seq older than what is remembered, or a write begun in the other mode,
55P03 another transaction that begins, commits or aborts the same write stayed open for 60 s: call
it again, 40001 under REPEATABLE READ or SERIALIZABLE when another one was first.';
