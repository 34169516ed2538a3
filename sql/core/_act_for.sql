create function pgq._act_for(begins boolean, own_access boolean default false)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    if begins then
        insert into pgq.acting (xid, own_access) values (txid_current(), own_access);
    else
        delete from pgq.acting as a where a.xid = txid_current();
    end if;
end
$$;

comment on function pgq._act_for(boolean, boolean) is
'Lets a function publish or enqueue on behalf of the role that set it up: the maker of a schedule,
or the role that set a dead-letter topic. Sizes are not checked meanwhile. own_access: nothing but
sizes is left unchecked, as for what a bulk write has staged. Call it with true before the write and
with false after it, with nothing else between; a rollback removes the row as well. It is a row and
not a setting, since a role that can read all tables could learn a secret value.';
