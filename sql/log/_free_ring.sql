create function pgq._free_ring(topic_id bigint, partition integer, partitions integer)
returns integer
language sql
volatile
parallel unsafe
as $$
-- Its own place, or the next one behind it: of two at one place, one would never be chosen.
select r.ring % 1024
from generate_series(
    _free_ring.partition * 1024 / _free_ring.partitions,
    _free_ring.partition * 1024 / _free_ring.partitions + 1023
) as r (ring)
where not exists (
    select
    from pgq.partition as p
    where p.topic_id = _free_ring.topic_id
        and p.partition <> _free_ring.partition
        and p.ring = r.ring % 1024
)
order by r.ring
limit 1
$$;

comment on function pgq._free_ring(bigint, integer, integer) is
'The place on the ring for a partition of a topic that has so many; those that still stand where
they stood with fewer keep theirs.';
