select format('group %s is at %s, behind the end of the log', group_id, next_offset)
from consumer_offsets
where next_offset > (select next_offset from log_counter);
