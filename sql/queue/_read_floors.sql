create function pgq._read_floors(queue_id bigint, label text)
returns setof pgq.queue_floor
language sql stable parallel safe rows 1
as $$
select f.*
from pgq.queue_floor as f
where f.queue_id = _read_floors.queue_id and f.label = _read_floors.label collate "C"
order by f.seq desc
limit 1
$$;

comment on function pgq._read_floors(bigint, text) is
'Returns the newest floors of a queue: the common ones (label empty), or those of "=" and a label.
The planner puts the statement into the one that calls it.';
