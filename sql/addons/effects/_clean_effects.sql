create function pgq._clean_effects()
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    -- The limit of one call, for jobs examined and for effects removed.
    most constant integer := 10000;
    last_job_id bigint;
    looked_at bigint[];
    ended bigint[];
    removed bigint;
begin
    if not exists (select from pgq.effect) then
        return;
    end if;

    select w.last_value into last_job_id from pgq.effect_walk as w;

    -- Loose index scan over the jobs that have effects; each is looked up by its id. A job in
    -- neither table has ended: a move between them is one transaction, so a snapshot always shows
    -- it in one.
    with recursive having_effects as (
        (
            select e.job_id
            from pgq.effect as e
            where e.job_id > last_job_id
            order by e.job_id
            limit 1
        )
        union all
        select (
            select e.job_id
            from pgq.effect as e
            where e.job_id > h.job_id
            order by e.job_id
            limit 1
        )
        from having_effects as h
        where h.job_id is not null
    ),

    walk as materialized (
        select h.job_id
        from having_effects as h
        where h.job_id is not null
        limit most
    )

    select
        array_agg(k.job_id order by k.job_id),
        array_agg(k.job_id) filter (where alive.job_id is null and dead.job_id is null)
    into looked_at, ended
    from walk as k
    left join lateral (
        select j.job_id
        from pgq.job as j
        where j.job_id = k.job_id
        limit 1
    ) as alive on true
    left join lateral (
        select d.job_id
        from pgq.dead_job as d
        where d.job_id = k.job_id
        limit 1
    ) as dead on true;

    with doomed as materialized (
        select e.job_id, e.effect
        from pgq.effect as e
        where e.job_id = any(ended)
        limit most
        for update skip locked
    )

    delete from pgq.effect as e
    using doomed as d
    where e.job_id = d.job_id and e.effect = d.effect;
    get diagnostics removed = row_count;

    if removed > 0 then
        return next row('effects removed', 'jobs', removed)::pgq.cleanup_action;
    end if;

    -- The next call continues after these jobs, or restarts from the lowest id if these were the
    -- last. It examines them again only if this call reached its limit of removals.
    if removed < most then
        perform setval(
            'pgq.effect_walk',
            case when cardinality(looked_at) = most then looked_at[most] else 0 end
        );
    end if;
    if removed = most or (removed > 0 and cardinality(looked_at) = most) then
        return next row('more', 'effects', 1)::pgq.cleanup_action;
    end if;
end
$$;

comment on function pgq._clean_effects() is
'Deletes effect records of jobs that have ended. Part of cleanup; it waits for no lock.';
