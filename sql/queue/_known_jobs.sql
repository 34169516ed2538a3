create function pgq._known_jobs(plan pgq._claim_plan, label text, met pgq._met_job[], stamps jsonb)
returns table (
    job_id bigint,
    limited_key text,
    priority smallint,
    visible_at timestamptz,
    ordinal bigint,
    has_slot boolean,
    leased boolean,
    fits boolean
)
language plpgsql volatile parallel unsafe
as $$
begin
    return query
    -- A job that already holds a slot of its key (it was unblocked, or its lease has expired)
    -- goes before other jobs of its priority. A holder with another label than this claim's
    -- takes no slot from it, unless it is leased. Its expired lease ends if its row can be
    -- locked here, since a locked row cannot be extended; else it still takes a slot.
    with keyed as materialized (
        select k.job_id, k.limited_key
        from (select distinct t.segment from unnest(met) as t) as s
        cross join lateral pgq._keys_of_jobs(s.segment, met) as k
    ),

    state as materialized (
        select k.limited_key, l.job_ids
        from (select distinct d.limited_key from keyed as d) as k
        cross join lateral (
            select h.job_ids
            from pgq.limited_key as h
            where h.queue_id = plan.queue_id and h.limited_key = k.limited_key
            order by h.seq desc
            limit 1
        ) as l
    ),

    holder as materialized (
        select
            s.limited_key, j.job_id, j.priority, j.visible_at,
            j.lease_token is not null and j.visible_at > plan.now_at as leased,
            _known_jobs.label is null
            or j.label is not distinct from _known_jobs.label
            or j.lease_token is not null
            and not coalesce(
                (
                    select true
                    from pgq.job as o
                    where o.job_id = j.job_id and o.visible_at - plan.now_at <= interval '0'
                    limit 1
                    for update skip locked
                ),
                false
            ) as fits
        from state as s
        cross join lateral unnest(s.job_ids) as h (job_id)
        cross join lateral (select k.* from pgq.job as k where k.job_id = h.job_id limit 1) as j
        where j.ordered_key = s.limited_key
            and j.due_at is null
            -- One unblocked before the clock was set back is not due now: it takes no slot.
            and (j.lease_token is not null or j.visible_at <= plan.now_at)
            and (
                j.expires_at is null
                or j.expires_at > plan.now_at
                or (j.lease_token is not null and j.visible_at > plan.now_at)
            )
    )

    select
        a.job_id, min(a.limited_key), min(a.priority), min(a.visible_at), min(a.ordinal),
        bool_or(a.has_slot), bool_or(a.leased), bool_or(a.fits)
    from (
        select
            t.job_id, null as limited_key, t.priority, t.visible_at, t.ordinal,
            false as has_slot, false as leased, true as fits
        from unnest(met) with ordinality as t (
            tid, segment, partition_id, log_offset, job_id, priority, visible_at,
            unique_key, last_attempt, was_begun, ordinal
        )
        union all
        select k.job_id, k.limited_key, null, null, null, false, false, false
        from keyed as k
        union all
        select h.job_id, h.limited_key, h.priority, h.visible_at, null, true, h.leased, h.fits
        from holder as h
        union all
        select e.key::bigint, e.value, null, null, null, true, true, false
        from jsonb_each_text(stamps) as e
    ) as a
    group by a.job_id;
end
$$;

comment on function pgq._known_jobs(pgq._claim_plan, text, pgq._met_job[], jsonb) is
'Returns one row for each job of the keys of the jobs that a claim has met: met here, holding a slot
of its key, or taken earlier in this claim (stamps).';
