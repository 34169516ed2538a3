create function pgq._check_remembered(target pgq.bulk_write)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    forgotten bigint;
begin
    if target.producer is null then
        return;
    end if;

    if pgq._keeps_snapshot() then
        -- An old snapshot may show neither the write nor that it was forgotten. The insert raises
        -- 40001 if the producer's row is invisible, the row lock if it was updated since.
        insert into pgq.bulk_producer (producer, topic_id, queue_id)
        values (target.producer, target.topic_id, target.queue_id)
        on conflict do nothing;

        perform
        from pgq.bulk_producer as p
        where p.producer = target.producer
            and coalesce(p.topic_id, 0) = coalesce(target.topic_id, 0)
            and coalesce(p.queue_id, 0) = coalesce(target.queue_id, 0)
        for share;
    end if;

    select p.forgotten_seq
    into forgotten
    from pgq.bulk_producer as p
    where p.producer = target.producer
        and coalesce(p.topic_id, 0) = coalesce(target.topic_id, 0)
        and coalesce(p.queue_id, 0) = coalesce(target.queue_id, 0);

    if target.seq <= forgotten then
        raise exception 'write % of producer "%" is older than what is remembered',
            target.seq, target.producer
            using errcode = '22023',
                detail = 'The newest 1000 writes of a producer are remembered, by seq.',
                hint = 'It is not known any more if it was written before. If you know that it was '
                    'not, write it under another name of the producer.';
    end if;
end
$$;

comment on function pgq._check_remembered(pgq.bulk_write) is
'Refuses a new write whose seq is not above the producer''s forgotten writes, since it may have been
one of them (22023). Insert the write before calling this: then no other transaction can write and
forget the same seq.';
