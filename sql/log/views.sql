-- The linter cannot lay out lateral joins.
-- noqa: disable=LT02,ST09

create view pgq.messages
with (security_barrier) as
select
    p.topic,
    p.partition,
    m.log_offset,
    m.published_at,
    m.key,
    m.headers,
    m.payload,
    m.body,
    m.partition_id
from pgq.partition as p
cross join lateral (
    select min(r.first_offset) as first_offset
    from pgq.segment_range as r
    where r.partition_id = p.partition_id
) as f
inner join pgq.message as m
    on m.partition_id = p.partition_id
    and m.log_offset >= f.first_offset;

comment on view pgq.messages is
'The messages of all topics, for reading in bulk: whole ranges, by several sessions at once.
Name the partition by partition_id = (select pgq.check_range(...)), and the offsets: that is an
index scan, and an error when retention has removed a part of it. Rows come in any order. Whoever
reads the view keeps cleanup from emptying any segment until the transaction ends: keep it short, or
read with fetch_range.';
comment on column pgq.messages.topic is 'The topic.';
comment on column pgq.messages.partition is 'The partition, from 0.';
comment on column pgq.messages.log_offset is 'Its offset in the partition, from 1.';
comment on column pgq.messages.published_at is 'When it was published.';
comment on column pgq.messages.key is 'Its key; null: none.';
comment on column pgq.messages.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.messages.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.messages.body is 'Its content as raw bytes; null when it has a payload.';
comment on column pgq.messages.partition_id is 'What check_range returns for its partition.';
