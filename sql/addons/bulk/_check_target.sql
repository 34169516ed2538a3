create function pgq._check_target(write_id uuid, topic_id bigint, queue_id bigint)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    if not exists (select from pgq.topic as t where t.topic_id = _check_target.topic_id)
        and not exists (select from pgq.queue as q where q.queue_id = _check_target.queue_id)
    then
        perform pgq._fail_write_lost(write_id, 'Its topic or queue was dropped.');
    end if;
end
$$;

comment on function pgq._check_target(uuid, bigint, bigint) is
'Raises MQ008 when the topic or queue was dropped during the write.
Messages and jobs are written by name, and the name may belong to a new topic or queue by then.';
