create function pgq._check_admin(topic text, queue text)
returns void
language plpgsql stable parallel unsafe
as $$
begin
    perform pgq._check_access(topic, queue, 'admin');
    if not pgq._administers(topic, queue) then
        raise exception 'permission denied to restrict % "%"',
            case when topic is not null then 'topic' else 'queue' end,
            coalesce(topic, queue)
            using errcode = '42501',
                detail = format('Role "%s" has not made it.', pgq._caller()),
                hint = 'The role that made it can restrict it, or the owner of pgq, or who has '
                    'admin access to all of them.';
    end if;
end
$$;

comment on function pgq._check_admin(text, text) is
'Like _check_access for admin access; also raises 42501 for an unrestricted topic or queue that
another role has made.';
