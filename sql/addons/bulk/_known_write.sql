create function pgq._known_write(wanted pgq.bulk_write)
returns pgq.bulk_write
language plpgsql volatile parallel unsafe
as $$
declare
    known pgq.bulk_write;
begin
    select w.*
    into known
    from pgq.bulk_write as w
    where w.producer = wanted.producer
        and coalesce(w.topic_id, 0) = coalesce(wanted.topic_id, 0)
        and coalesce(w.queue_id, 0) = coalesce(wanted.queue_id, 0)
        and w.seq = wanted.seq;

    -- A committed write does not change any more: return it without a lock, so without waiting.
    if known.committed_at is null and known.bulk_write_id is not null then
        select w.*
        into known
        from pgq.bulk_write as w
        where w.bulk_write_id = known.bulk_write_id
        for update;
    end if;
    return known;
end
$$;

comment on function pgq._known_write(pgq.bulk_write) is
'Returns the write of this producer and seq, locked unless it is committed; null when it does not
exist.';
