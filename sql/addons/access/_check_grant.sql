create function pgq._check_grant(role text, topic text, queue text, access text)
returns void
language plpgsql stable parallel unsafe
as $$
declare
    kind text := case when topic is not null then 'topic' else 'queue' end;
begin
    if role is null then
        raise exception 'argument "role" must not be null' using errcode = '22004';
    end if;
    if num_nonnulls(topic, queue) <> 1 then
        raise exception '"topic", "queue": exactly one is needed'
            using errcode = case when topic is null then '22004' else '22023' end;
    end if;
    if access not in ('publish', 'consume', 'monitor', 'admin') then
        raise exception 'argument "access" must be publish, consume, monitor or admin'
            using errcode = '22023';
    end if;

    if '*' in (topic, queue) and not pgq._may(pgq._granted(kind, 0, 'admin')) then
        raise exception 'permission denied for all %s', kind
            using errcode = '42501',
                detail = format('Role "%s" has no admin access to them.', pgq._caller()),
                hint = 'The owner of pgq can give it with pgq.grant_access.';
    end if;
end
$$;

comment on function pgq._check_grant(text, text, text, text) is
'Checks the arguments of grant_access and revoke_access (22004, 22023); for *, also that the caller
has admin access to all topics or all queues (42501).';
