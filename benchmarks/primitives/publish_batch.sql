-- :batch messages per transaction; one statement counts and inserts.
with reserved as (
    update log_counter
    set next_offset = next_offset + :batch::integer
    where id = 1
    returning next_offset - :batch::integer as first_offset
)
insert into topic (topic_id, c_offset, payload)
select 1, reserved.first_offset + given.ordinality - 1, given.payload
from
    reserved,
    unnest(array_fill(:body::bytea, array[:batch::integer]))
    with ordinality as given (payload, ordinality);
