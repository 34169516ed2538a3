create function pgq._may(roles text[])
returns boolean
language plpgsql stable parallel unsafe cost 1
as $$
begin
    return roles is null
        or pgq._has_role(pgq._caller(), roles)
        or exists (
            select
            from pgq.acting as a
            where a.xid = txid_current_if_assigned() and not a.own_access
        );
end
$$;

comment on function pgq._may(text[]) is
'Whether the caller is one of these roles, or has the privileges of one of them or of the owner of
pgq; a null list means every role. Always true while _act_for is in effect.';
