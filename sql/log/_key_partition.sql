create function pgq._key_partition(key text, partitions integer)
returns bigint
language sql immutable parallel safe
as $$
select (
    hashtextextended(_key_partition.key, 0) % _key_partition.partitions + _key_partition.partitions
) % _key_partition.partitions
$$;

comment on function pgq._key_partition(text, integer) is
'Returns the partition of a key in a topic with this number of partitions.
The planner inlines it, so it must remain one SELECT without settings. It must never change: keys
would move.';
