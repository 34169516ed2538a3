create function pgq._may_write(topic_id bigint, queue_id bigint)
returns boolean
language sql stable parallel unsafe
as $$
select pgq._may_use(
    (select t.topic from pgq.topic as t where t.topic_id = _may_write.topic_id),
    (select q.queue from pgq.queue as q where q.queue_id = _may_write.queue_id), 'publish'
)
$$;

comment on function pgq._may_write(bigint, bigint) is
'Whether the caller may publish to the target of a bulk write, given by its id.';
