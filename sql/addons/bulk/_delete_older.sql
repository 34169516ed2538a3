create function pgq._delete_older(target pgq.bulk_write)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    topic_id_or_0 bigint := coalesce(target.topic_id, 0);
    queue_id_or_0 bigint := coalesce(target.queue_id, 0);
begin
    -- Keep the write that was just committed, since its commit may be repeated. The upsert makes a
    -- begin_write with an old snapshot fail (40001): it would not know what was forgotten.
    with forgotten as (
        delete from pgq.bulk_write as w
        where w.bulk_write_id = any(
            array(
                select o.bulk_write_id
                from pgq.bulk_write as o
                where coalesce(o.topic_id, 0) = topic_id_or_0
                    and coalesce(o.queue_id, 0) = queue_id_or_0
                    and o.producer = target.producer
                    and o.committed_at is not null
                    and o.seq < (
                        select n.seq
                        from pgq.bulk_write as n
                        where coalesce(n.topic_id, 0) = topic_id_or_0
                            and coalesce(n.queue_id, 0) = queue_id_or_0
                            and n.producer = target.producer
                            and n.committed_at is not null
                        order by n.seq desc
                        offset 999
                        limit 1
                    )
                    and o.bulk_write_id <> target.bulk_write_id
                for update skip locked
            )
        )
        returning w.seq
    )

    insert into pgq.bulk_producer as p (producer, topic_id, queue_id, forgotten_seq)
    select target.producer, target.topic_id, target.queue_id, max(f.seq)
    from forgotten as f
    having max(f.seq) is not null
    on conflict (coalesce(topic_id, 0), coalesce(queue_id, 0), producer) do update
    set forgotten_seq = greatest(p.forgotten_seq, excluded.forgotten_seq);
end
$$;

comment on function pgq._delete_older(pgq.bulk_write) is
'Forgets the writes of a producer that are older, by seq, than its newest 1000.';
