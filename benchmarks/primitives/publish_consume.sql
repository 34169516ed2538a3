-- One message, and then what there is to read, by whichever client gets it.
with reserved as (
    update log_counter
    set next_offset = next_offset + 1
    where id = 1
    returning next_offset - 1 as first_offset
)
insert into topic (topic_id, c_offset, payload)
select 1, reserved.first_offset + given.ordinality - 1, given.payload
from reserved, unnest(array[:body::bytea]) with ordinality as given (payload, ordinality);
begin;
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
returning held.next_offset as first_offset, moved.next_offset - 1 as last_offset \gset
select c_offset, payload, created_at from topic
where topic_id = 1 and c_offset between :first_offset and :last_offset;
commit;
