create function pgq._found_in(group_id bigint)
returns text
language sql volatile parallel unsafe
as $$
select concat_ws(' ', _found_in.group_id, floor(date_part('epoch', clock_timestamp()) * 10))
$$;

comment on function pgq._found_in(bigint) is
'What a session notes when a member of a group has found something by looking at all partitions: for
the rest of a tenth of a second it looks there before it looks at all of them again.';
