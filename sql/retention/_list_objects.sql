create function pgq._list_objects(part text)
returns table (ids bigint[], met_lock boolean)
language plpgsql volatile parallel unsafe rows 1
as $$
begin
    ids := array(
        select o.id
        from pgq._objects_of(part) as o (id)
        where not o.id <@ (select pgq._failed_objects(part))
        order by o.id
    );
    return next;
exception
    when lock_not_available or deadlock_detected then
        met_lock := true;
        return next;
    when assert_failure or others then
        return next;
end
$$;

comment on function pgq._list_objects(text) is
'The ids of the objects that a part of cleanup works on, but for those that are known to fail. Null:
the tables of the part cannot be read, because they are damaged, or locked if met_lock is true.';
