create function pgq._home(key text, partitions integer)
returns bigint
language sql immutable parallel safe
as $$
select (hashtextextended(_home.key, 0) % _home.partitions + _home.partitions) % _home.partitions
$$;

comment on function pgq._home(text, integer) is
'The partition of a key, in a topic of so many. The planner writes it out where it is called, so it
must stay one select without settings. It never changes: keys would move.';
