-- As consume.sql, without waiting for the flush of the position.
begin;
with unflushed as (
    select set_config('synchronous_commit', 'off', true)
),

held as (
    select next_offset from consumer_offsets
    where group_id = :group::integer and topic_id = 1
    for update
),

tip as (
    select next_offset from log_counter where id = 1
)

update consumer_offsets as moved
set next_offset = held.next_offset + least(:batch::integer, tip.next_offset - held.next_offset)
from held, tip, unflushed
where moved.group_id = :group::integer and moved.topic_id = 1
returning held.next_offset as first_offset, moved.next_offset - 1 as last_offset \gset
select c_offset, payload, created_at from topic
where topic_id = 1 and c_offset between :first_offset and :last_offset;
commit;
\if :last_offset < :first_offset
\set group :group + 1
\endif
