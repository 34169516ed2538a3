create function pgq._retry_failures(
    failure_ids bigint[], max_tries integer, started pg_snapshot, horizon xid8, oldest_xid xid8,
    now_at timestamptz
)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
    attempt record;
    working text[] := '{}';
    tries integer := 0;
begin
    -- All of each part together, which is enough after a general trouble; then one object of each
    -- part in turn, those first that were tried longest ago.
    for target in
        with failed as (
            select
                f.part, int8range(f.object, f.object, '[]') as object,
                min(f.cleanup_failure_id) as id
            from pgq.cleanup_failure as f
            where f.cleanup_failure_id = any(failure_ids) and f.object is not null
            group by f.part, f.object
        )

        select
            f.part, int8multirange(f.object) as objects, true as single, f.id,
            row_number() over (partition by f.part order by f.id) as turn
        from failed as f
        union all
        select f.part, range_agg(f.object), false, min(f.id), 0
        from failed as f
        group by f.part
        having count(*) > 1
        order by turn, id
    loop
        continue when target.part = any(working);
        exit when tries >= max_tries;
        tries := tries + 1;
        select t.*
        into attempt
        from pgq._try_part(target.part, target.objects, started, horizon, oldest_xid, now_at) as t;
        return query select r.* from unnest(attempt.done) as r;

        if attempt.error_code is null and not exists (
            -- It may not have come to what fails.
            select
            from unnest(attempt.done) as d
            where d.action in ('busy', 'segment busy') or (d.action = 'more' and not target.single)
        ) then
            perform pgq._forget_failures(target.part, target.objects);
            if not target.single then
                working := working || target.part;
            end if;
        elsif target.single and attempt.error is not null then
            return next pgq._note_failure(
                target.part, lower(target.objects), attempt.error_code, attempt.error, now_at
            );
        elsif target.single then
            perform pgq._store_failure(target.part, lower(target.objects), null, null, now_at);
        end if;

        -- Each segment had a subtransaction of its own.
        exit when attempt.error_code = '53100' or exists (
            select
            from unnest(attempt.done) as d
            where d.action in ('segment sealed', 'segment truncated')
        );
    end loop;
end
$$;

comment on function pgq._retry_failures(bigint[], integer, pg_snapshot, xid8, xid8, timestamptz) is
'Tries again what has failed in former calls of cleanup, with at most max_tries subtransactions, and
deletes the failures of what works again; returns the actions.';
