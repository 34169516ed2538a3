create function pgq._home(key text, partitions integer)
returns bigint
language sql immutable parallel safe
as $$
select (hashtextextended(_home.key, 0) % _home.partitions + _home.partitions) % _home.partitions
$$;

comment on function pgq._home(text, integer) is
'Returns the partition of a key in a topic with this number of partitions.
The planner inlines it, so it must remain one SELECT without settings. It must never change: keys
would move.';
