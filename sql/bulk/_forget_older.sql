create function pgq._forget_older(target pgq.bulk_write)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- All but the one that was just committed, since its commit may be repeated. The upsert is what
    -- a begin_write with an old snapshot conflicts with: it would not know what was forgotten.
    with forgotten as (
        delete from pgq.bulk_write as w
        where w.bulk_write_id in (
            select o.bulk_write_id
            from pgq.bulk_write as o
            where o.producer = (_forget_older.target).producer
                and coalesce(o.topic_id, 0) = coalesce((_forget_older.target).topic_id, 0)
                and coalesce(o.queue_id, 0) = coalesce((_forget_older.target).queue_id, 0)
                and o.committed_at is not null
                and o.bulk_write_id <> (_forget_older.target).bulk_write_id
                and o.seq < (
                    select n.seq
                    from pgq.bulk_write as n
                    where n.producer = (_forget_older.target).producer
                        and coalesce(n.topic_id, 0) = coalesce((_forget_older.target).topic_id, 0)
                        and coalesce(n.queue_id, 0) = coalesce((_forget_older.target).queue_id, 0)
                        and n.committed_at is not null
                    order by n.seq desc
                    offset 999
                    limit 1
                )
            for update skip locked
        )
        returning w.seq
    )

    insert into pgq.bulk_producer as p (producer, topic_id, queue_id, forgotten_seq)
    select
        (_forget_older.target).producer,
        (_forget_older.target).topic_id,
        (_forget_older.target).queue_id,
        max(f.seq)
    from forgotten as f
    having max(f.seq) is not null
    on conflict (coalesce(topic_id, 0), coalesce(queue_id, 0), producer) do update
    set forgotten_seq = greatest(p.forgotten_seq, excluded.forgotten_seq);
end
$$;

comment on function pgq._forget_older(pgq.bulk_write) is
'Forgets the writes of a producer that are older than its newest 1000, by seq.';
