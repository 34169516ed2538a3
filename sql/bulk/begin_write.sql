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

    moment := pgq._clock();
    loop
        select w.*
        into known
        from pgq.bulk_write as w
        where w.producer = begin_write.producer
            and coalesce(w.topic_id, 0) = coalesce(target_topic_id, 0)
            and coalesce(w.queue_id, 0) = coalesce(target_queue_id, 0)
            and w.seq = begin_write.seq
        for update;

        exit when known.bulk_write_id is not null;

        -- commit_write keeps the newest of a producer, so an older one may have been forgotten.
        if exists (
            select
            from pgq.bulk_write as w
            where w.producer = begin_write.producer
                and coalesce(w.topic_id, 0) = coalesce(target_topic_id, 0)
                and coalesce(w.queue_id, 0) = coalesce(target_queue_id, 0)
                and w.committed_at is not null
                and w.seq > begin_write.seq
            order by w.seq desc
            offset 999
        ) then
            raise exception 'write % of producer "%" is older than what is remembered',
                begin_write.seq, begin_write.producer
                using errcode = '22023',
                    detail = 'The newest 1000 writes of a producer are remembered, by seq.',
                    hint = 'Nobody can tell whether it was written before. If you know that it '
                        'was not, write it under another name of the producer.';
        end if;

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
            insert into pgq.staged_write (write_id)
            select known.write_id
            where known.atomic;

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

    -- Whoever still writes with the old id is refused from now on.
    perform pgq._forget_staged(known.write_id);
    update pgq.bulk_write as w
    set
        write_id = gen_random_uuid(),
        begun_at = moment,
        expires_at = moment + begin_write.timeout
    where w.bulk_write_id = known.bulk_write_id
    returning w.write_id
    into known.write_id;

    insert into pgq.staged_write (write_id)
    select known.write_id
    where known.atomic;

    return row(known.write_id, null, null, false)::pgq.bulk_write_state;
end
$$;

comment on function pgq.begin_write(text, text, text, bigint, boolean, interval) is
'Begins a write of many writers to a topic or a queue, and returns the id that they write with.
Commit it before they begin. They add chunks with write_chunk; commit_write ends it, abort_write
gives it up. An atomic write is staged, and seen all at once when it is committed; else each chunk
is published as it comes. With producer and seq it is known again: when it was committed before,
the result says so (repeated) and there is nothing to do; when it is still open it begins anew, the
writers of the earlier attempt are refused from then on, and chunks that were published already are
left out. The newest 1000 writes of a producer are remembered for each topic and queue. A write
that is not committed within the timeout is forgotten by cleanup; what chunks of it published stays,
and comes a second time when it is begun anew after that.
Errors: MQ001 unknown topic, MQ002 unknown queue, 22004 no topic or queue, or a null, 22023 both,
producer without seq, a seq older than what is remembered, or a write begun in the other mode,
40001 under REPEATABLE READ or SERIALIZABLE when another one was first.';
