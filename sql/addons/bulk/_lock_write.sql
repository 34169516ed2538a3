create function pgq._lock_write(write_id uuid)
returns pgq.bulk_write
language plpgsql volatile parallel unsafe
as $$
declare
    target pgq.bulk_write;
    is_marked boolean;
begin
    select w.*
    into target
    from pgq.bulk_write as w
    where w.write_id = _lock_write.write_id and pgq._may_write(w.topic_id, w.queue_id);

    if target.bulk_write_id is null then
        perform pgq._fail_write_lost(write_id, null);
    end if;
    if target.committed_at is not null then
        return target;
    end if;

    -- Lock the marker first: open chunks hold it, and while this waits for them, begin_write and
    -- abort_write can still lock the row of the write.
    if target.atomic then
        perform from pgq.staged_write as s where s.write_id = target.write_id for update;
    else
        perform
        from pgq.published_write as g
        where g.bulk_write_id = target.bulk_write_id
        for update;
    end if;
    is_marked := found;

    select w.*
    into target
    from pgq.bulk_write as w
    where w.write_id = _lock_write.write_id
    for update;

    if target.bulk_write_id is null then
        perform pgq._fail_write_lost(
            write_id, 'It was started again, aborted or forgotten meanwhile.'
        );
    end if;
    if target.committed_at is null and not is_marked then
        perform pgq._fail_write_lost(write_id, 'What was staged is not in this database.');
    end if;
    return target;
end
$$;

comment on function pgq._lock_write(uuid) is
'Returns the write of this id: either committed, or open and locked with its marker, so that no
transaction with a chunk of it is open. Raises MQ008.';
