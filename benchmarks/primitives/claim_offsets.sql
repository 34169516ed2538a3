-- Moves the group and returns the range, in one statement.
with held as (
    select next_offset from consumer_offsets
    where group_id = 1 and topic_id = 1
    for update
),

tip as (
    select next_offset from log_counter where id = 1
)

update consumer_offsets as moved
set next_offset = held.next_offset + least(:batch::integer, tip.next_offset - held.next_offset)
from held, tip
where moved.group_id = 1 and moved.topic_id = 1
returning held.next_offset as first_offset, moved.next_offset - 1 as last_offset;
