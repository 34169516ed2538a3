create function pgq._ring()
returns integer
language sql stable parallel safe
as $$
select ((pg_backend_pid()::bigint * 633 + date_part('epoch', now())::bigint * 389) % 1024)::integer
$$;

comment on function pgq._ring() is
'Returns the slot (0 to 1023) where this session starts to look for a partition in this second.
Sessions start at different slots and all move on every second, so they seldom collide, and a single
publisher still fills every partition.';
