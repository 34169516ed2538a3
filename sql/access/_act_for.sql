create function pgq._act_for(owner boolean)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    if owner then
        insert into pgq.acting (xid) values (txid_current());
    else
        delete from pgq.acting as a where a.xid = txid_current();
    end if;
end
$$;

comment on function pgq._act_for(boolean) is
'Lets a function publish or enqueue where its caller may not: what a schedule writes, or goes to a
dead-letter topic, was allowed to whoever set that up. Between true and false there is nothing but
that; a rollback undoes it too. It is a row and not a setting, since those who may read all tables
could find out a secret.';
