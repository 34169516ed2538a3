create function pgq._fail_other_chunk(task integer, chunk integer)
returns void
language plpgsql immutable parallel safe
as $$
begin
    raise exception 'chunk % of task % was written before with other contents',
        chunk, task
        using errcode = '22023',
            detail = 'One attempt to run the task gave two chunks the same number.';
end
$$;

comment on function pgq._fail_other_chunk(integer, integer) is
'Raises 22023: the same chunk number was written before with different contents.';
