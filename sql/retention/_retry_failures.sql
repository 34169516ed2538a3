create function pgq._retry_failures(
    failure_ids bigint[], max_tries integer, started pg_snapshot, horizon xid8, oldest_xid xid8,
    now_at timestamptz
)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
    objects int8multirange;
    attempt record;
    tries integer := 0;
begin
    -- All of a part together, which is enough after a general trouble; then those one by one that
    -- were tried longest ago.
    for target in
        select
            f.part, range_agg(f.object) as objects,
            array_agg(int8multirange(f.object) order by f.id) as singles
        from (
            select
                g.part, int8range(g.object, g.object, '[]') as object,
                min(g.cleanup_failure_id) as id
            from pgq.cleanup_failure as g
            where g.cleanup_failure_id = any(failure_ids) and g.object is not null
            group by g.part, g.object
        ) as f
        group by f.part
        order by min(f.id)
    loop
        -- The set first, unless it is a single object.
        foreach objects in array
            case when cardinality(target.singles) > 1 then array[target.objects] end
            || (target.singles)[:10]
        loop
            if tries >= max_tries then
                return;
            end if;
            tries := tries + 1;
            select t.*
            into attempt
            from pgq._try_part(target.part, objects, started, horizon, oldest_xid, now_at) as t;
            return query select r.* from unnest(attempt.done) as r;

            if attempt.error_code is null then
                perform pgq._forget_failures(target.part, objects);
                exit when objects = target.objects;
            elsif attempt.error is not null and objects <@ any(target.singles) then
                return next pgq._note_failure(
                    target.part, lower(objects), attempt.error_code, attempt.error, now_at
                );
            end if;
            exit when attempt.error_code = '53100';
        end loop;
    end loop;
end
$$;

comment on function pgq._retry_failures(bigint[], integer, pg_snapshot, xid8, xid8, timestamptz) is
'Tries again what has failed in former calls of cleanup, with at most max_tries subtransactions, and
deletes the failures of what works again; returns the actions.';
