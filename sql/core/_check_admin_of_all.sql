create function pgq._check_admin_of_all()
returns void
language plpgsql stable parallel unsafe
as $$
begin
    if not (
        pgq._may(pgq._granted('topic', 0, 'admin'))
        and pgq._may(pgq._granted('queue', 0, 'admin'))
    ) then
        raise exception 'permission denied for what concerns all topics and queues'
            using errcode = '42501',
                detail = format('Role "%s" has no admin access to all of them.', pgq._caller()),
                hint = 'pgq_admin has it, see pgq.create_roles; or use pgq.grant_access with *.';
    end if;
end
$$;

comment on function pgq._check_admin_of_all() is
'Raises 42501 unless the caller has admin access to all topics and all queues.';
