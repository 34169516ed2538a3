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
'Makes the commit of this transaction wait for the write-ahead log to reach the disk if the session
has synchronous_commit off.';
