create function pgq._ring()
returns integer
language sql stable parallel safe
as $$
select ((pg_backend_pid()::bigint * 633 + date_part('epoch', now())::bigint * 389) % 1024)::integer
$$;

comment on function pgq._ring() is
'Where on the ring of partitions this session begins to look, at this second.
Sessions begin at different places, and all move on every second: so they seldom meet, and one
publisher alone still fills every partition.';
