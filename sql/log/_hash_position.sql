create function pgq._hash_position()
returns integer
language sql stable parallel safe
as $$
select ((pg_backend_pid()::bigint * 633 + date_part('epoch', now())::bigint * 389) % 1024)::integer
$$;

comment on function pgq._hash_position() is
'Returns the hash position (0 to 1023) where this session starts to look for a partition in this
second. Sessions start at different hash positions and all move on every second, so they seldom
collide, and a single publisher still fills every partition.';
