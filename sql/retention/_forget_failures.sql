create function pgq._forget_failures(part text, objects int8multirange)
returns void
language sql volatile parallel unsafe
as $$
delete from pgq.cleanup_failure as f
where f.cleanup_failure_id = any(array(
    select g.cleanup_failure_id
    from pgq.cleanup_failure as g
    where g.part = _forget_failures.part
        and coalesce(g.object <@ objects, g.object is null and objects is null)
    for update skip locked
))
$$;

comment on function pgq._forget_failures(text, int8multirange) is
'Deletes the failures of a part of cleanup for these objects, or as a whole if that is null.';
