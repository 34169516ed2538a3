create function pgq._find_write(write_id uuid)
returns pgq._write_target
language plpgsql volatile parallel unsafe
as $$
declare
    target pgq._write_target;
    ended_at timestamptz;
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
        w.committed_at
    into
        target.bulk_write_id,
        target.atomic,
        target.attempt,
        target.topic_id,
        target.topic,
        target.partitions,
        target.queue_id,
        target.queue,
        target.job_ttl,
        ended_at
    from pgq.bulk_write as w
    left join pgq.topic as t on t.topic_id = w.topic_id
    left join pgq.queue as q on q.queue_id = w.queue_id
    where w.write_id = _find_write.write_id and pgq._may_write(w.topic_id, w.queue_id);

    if target.bulk_write_id is null
        or ended_at is not null
        or num_nonnulls(target.topic, target.queue) = 0
    then
        if target.bulk_write_id is null then
            perform pgq._check_no_write(write_id);
        end if;
        perform pgq._fail_write_lost(
            write_id,
            case
                when ended_at is not null
                    then 'It has been committed; this attempt to write comes too late.'
                when target.bulk_write_id is not null then 'Its topic or queue was dropped.'
            end
        );
    end if;
    return target;
end
$$;

comment on function pgq._find_write(uuid) is
'Returns the open write of this id and its target, without a lock. Raises MQ008.';
