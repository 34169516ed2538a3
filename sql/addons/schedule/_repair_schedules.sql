create function pgq._repair_schedules(now_at timestamptz, max_rows bigint)
returns table (action text, target text, amount bigint)
language plpgsql volatile parallel unsafe
as $$
begin
    return query
    with ahead as materialized (select a.* from pgq._ahead_schedules(now_at) as a limit max_rows),

    locked as materialized (
        select a.*
        from ahead as a
        inner join pgq.schedule as s on s.schedule = a.schedule
        order by s.schedule
        for update of s skip locked
    )

    update pgq.schedule as s
    set starts_at = l.starts_at, next_at = l.next_at, due_at = l.due_at
    from locked as l
    where s.schedule = l.schedule
    returning 'schedules set back', s.schedule, 1::bigint;
end
$$;

comment on function pgq._repair_schedules(timestamptz, bigint) is
'The part of repair_clock that sets back schedules, at most max_rows.';
