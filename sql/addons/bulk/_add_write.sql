create function pgq._add_write(wanted pgq.bulk_write, timeout interval)
returns pgq.bulk_write
language plpgsql volatile parallel unsafe
as $$
declare
    now_at timestamptz := pgq._clock();
    made pgq.bulk_write;
begin
    insert into pgq.bulk_write (
        topic_id, queue_id, producer, seq, atomic, write_id, begun_at, expires_at, owner
    )
    values (
        wanted.topic_id,
        wanted.queue_id,
        wanted.producer,
        wanted.seq,
        wanted.atomic,
        gen_random_uuid(),
        now_at,
        now_at + timeout,
        wanted.owner
    )
    on conflict do nothing
    returning *
    into made;

    if made.bulk_write_id is not null then
        perform pgq._check_remembered(made);

        if made.atomic then
            insert into pgq.staged_write (write_id) values (made.write_id);
        else
            insert into pgq.published_write (bulk_write_id) values (made.bulk_write_id);
        end if;
    end if;
    return made;
end
$$;

comment on function pgq._add_write(pgq.bulk_write, interval) is
'Adds a bulk write with its marker row; null when a concurrent transaction has added the same
producer and seq. Raises 22023 when the write may have been made before and forgotten.';
