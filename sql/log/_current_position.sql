create function pgq._current_position(group_id bigint, partition integer)
returns setof pgq.group_position
language sql stable parallel safe rows 1
as $$
select j.*
from pgq.group_position as j
where j.group_id = _current_position.group_id and j.partition = _current_position.partition
order by j.seq desc
limit 1
$$;

comment on function pgq._current_position(bigint, integer) is
'The current row of the journal of a group in a partition. PostgreSQL inlines it as a subquery.';
