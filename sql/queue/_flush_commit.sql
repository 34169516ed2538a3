create function pgq._flush_commit()
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end
$$;

comment on function pgq._flush_commit() is
'Lets the commit of this transaction wait for the disk where the session has it wait for nothing.';
