create function pgq._found_in(group_id bigint)
returns text
language sql volatile parallel unsafe
as $$
select concat_ws(' ', _found_in.group_id, floor(date_part('epoch', clock_timestamp()) * 10))
$$;

comment on function pgq._found_in(bigint) is
'Returns the value under which a session keeps the partition hint of a group (pgq.found_in,
pgq.found_at). The hint, set after a scan of all partitions, is valid for the rest of the tenth of a
second.';
