create function pgq._visible(scope text, access text)
returns bigint[]
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
begin
    -- Usually nothing is restricted, or the caller may see all.
    if pgq._may(pgq._granted(_visible.scope, 0, _visible.access)) then
        return array(
            select t.topic_id
            from pgq.topic as t
            where _visible.scope = 'topic'
                and t.restricted
            union all
            select q.queue_id
            from pgq.queue as q
            where _visible.scope = 'queue'
                and q.restricted
        );
    end if;

    return array(
        select coalesce(g.topic_id, g.queue_id)
        from pgq.access_grant as g
        where g.scope = _visible.scope
            and (g.access in (_visible.access, 'admin') or _visible.access = 'monitor')
            and pgq._may(array[g.role])
    );
end
$$;

comment on function pgq._visible(text, text) is
'The ids of the restricted topics or queues to which the caller has this access.';
