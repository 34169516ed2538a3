create function pgq._find_write(write_id uuid)
returns pgq._write_target
language plpgsql volatile parallel unsafe
as $$
declare
    target pgq._write_target;
begin
    select
        w.bulk_write_id,
        w.atomic,
        w.attempt,
        w.topic_id,
        t.topic,
        t.partitions,
        w.queue_id,
        q.queue,
        q.job_ttl,
        w.committed_at,
        coalesce(t.max_message_bytes, q.max_message_bytes)
    into target
    from pgq.bulk_write as w
    left join pgq.topic as t on t.topic_id = w.topic_id
    left join pgq.queue as q on q.queue_id = w.queue_id
    where w.write_id = _find_write.write_id and pgq._may_write(w.topic_id, w.queue_id);

    if target.bulk_write_id is null then
        perform pgq._check_no_write(write_id);
        perform pgq._fail_write_lost(write_id, null);
    end if;
    if target.committed_at is not null then
        perform pgq._fail_write_lost(
            write_id, 'It has been committed; this attempt to write comes too late.'
        );
    end if;
    if target.topic is null and target.queue is null then
        perform pgq._fail_write_lost(write_id, 'Its topic or queue was dropped.');
    end if;
    return target;
end
$$;

comment on function pgq._find_write(uuid) is
'Returns the open write of this id and its target, without a lock. Raises MQ008.';
