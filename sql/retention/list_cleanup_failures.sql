create function pgq.list_cleanup_failures()
returns table (
    part text,
    target text,
    failed_since timestamptz,
    tried_at timestamptz,
    error_code text,
    error text
)
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
begin
    return query
    select
        f.part, d.target, f.failed_since, f.tried_at, f.error_code,
        case when d.administered then pgq._printable(f.error) end
    from (
        select distinct on (g.part, g.object) g.*
        from pgq.cleanup_failure as g
        order by g.part, g.object, g.failed_since
    ) as f
    cross join lateral pgq._describe_object(f.part, f.object) as d
    order by f.failed_since, f.cleanup_failure_id;
end
$$;

comment on function pgq.list_cleanup_failures() is
'Lists the objects for which cleanup fails, the oldest failure first.
Each row is an object that makes a part of cleanup fail. target is the object: a queue, a topic, a
group as topic/group, a write_id, a segment or storage class by its number; null: the part fails for
all. failed_since is when it failed first, tried_at when it was tried last; each cleanup retries
some objects, and deletes the row when that succeeds. Only admins of the object see error, and only
the owner of pgq if the object belongs to no topic or queue; else it is null.';
