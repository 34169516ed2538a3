create function pgq._has_blocked(queue_id bigint)
returns boolean
language plpgsql volatile parallel unsafe
as $$
begin
    return exists (
        select
        from generate_series(0, 9) as p (priority)
        cross join lateral (
            select
            from pgq.job as j
            where j.queue_id = _has_blocked.queue_id
                and j.priority = p.priority
                and j.visible_at = 'infinity'
                and j.due_at is not null
            limit 1
        ) as k
    );
end
$$;

comment on function pgq._has_blocked(bigint) is 'Returns whether a queue has blocked jobs.';
