create function pgq._may(roles text[])
returns boolean
language plpgsql stable parallel unsafe cost 1
as $$
begin
    return _may.roles is null
        or pgq._has_role(pgq._caller(), _may.roles)
        or exists (select from pgq.acting as a where a.xid = txid_current_if_assigned());
end
$$;

comment on function pgq._may(text[]) is
'Whether the caller is one of these roles or has their privileges, or those of the owner of pgq;
null stands for every role.';
