create function pgq._visible_to(role text, scope text, access text)
returns bigint[]
language plpgsql stable parallel safe
as $$
begin
    -- Fast path: the role has this access to everything.
    if pgq._has_role(role, pgq._granted(scope, 0, access)) then
        return array(
            select t.topic_id
            from pgq.topic as t
            where scope = 'topic' and t.restricted
            union all
            select q.queue_id
            from pgq.queue as q
            where scope = 'queue' and q.restricted
        );
    end if;

    -- Test each role once: there may be thousands of grants but few roles, and a test takes time.
    return array(
        with roles as materialized (
            select distinct g.role
            from pgq.access_grant as g
            where g.scope = _visible_to.scope
        )

        select coalesce(g.topic_id, g.queue_id)
        from pgq.access_grant as g
        where g.scope = _visible_to.scope
            and (g.access in (_visible_to.access, 'admin') or _visible_to.access = 'monitor')
            and g.role = any(
                array(
                    select r.role
                    from roles as r
                    where pgq._has_role(_visible_to.role, array[r.role])
                )
            )
    );
end
$$;

comment on function pgq._visible_to(text, text, text) is
'The ids of the restricted topics or queues to which a role has this access.';
