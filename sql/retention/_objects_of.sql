create function pgq._objects_of(part text)
returns setof bigint
language sql volatile parallel unsafe
as $$
select q.queue_id from pgq.queue as q where part in ('jobs', 'subscriptions')
union
-- Dropped queues may have left rows.
select i.queue_id
from unnest(
    array[
        'job', 'job_extent', 'dead_job', 'unique_job', 'queue_floor', 'claim_count', 'ordered_key',
        'key_wakeup', 'limited_key'
    ]
) as r (relation)
cross join lateral pgq._queues_in(r.relation) as i (queue_id)
where part = 'jobs'
union
select r.queue_id from pgq.room_count as r where part = 'jobs'
union
select w.bulk_write_id from pgq.bulk_write as w where part = 'writes'
union
select g.bulk_write_id from pgq.published_write as g where part = 'writes'
union
select 0 where part = 'writes'
union
select d.partition_id from pgq.dropped_range as d where part = 'dropped messages'
union
select s.segment from pgq.segment as s where part in ('truncation', 'closing')
union
select g.group_id from pgq.consumer_group as g where part = 'positions'
union
select t.topic_id from pgq.topic as t where part = 'offsets' and t.deferred
union
select c.storage_class_id from pgq.storage_class as c where part = 'sealing'
$$;

comment on function pgq._objects_of(text) is
'The ids of the objects that a part of cleanup works on: queues, bulk writes (0: what belongs to
none any more), groups, topics, segments, storage classes, or for dropped messages partition_ids.';
