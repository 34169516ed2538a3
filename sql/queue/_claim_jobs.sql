create function pgq._claim_jobs(
    queue text, max_jobs integer, least_jobs integer, lease interval, label text, max_bytes bigint,
    prefetch boolean, met_spent boolean
)
returns setof pgq.claimed_job
language plpgsql volatile parallel unsafe
set enable_bitmapscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    plan pgq._claim_plan;
    chosen pgq._chosen_jobs;
    token uuid := gen_random_uuid();
    lease_end timestamptz;
    most_attempts integer;
    tids tid[];
    leaves integer[];
    stamps jsonb;
    begun tid;
    first integer := 1;
    last integer;
    leaf integer;
    cut_short boolean;
begin
    perform pgq._check_count('max_jobs', max_jobs, least_jobs, 100000);
    perform pgq._check_count('max_bytes', max_bytes, 1, 9223372036854775807);
    perform pgq._check_label(label);

    plan := pgq._plan_claim(queue, max_jobs, lease, label);
    if plan.wanted = 0 then
        return;
    end if;
    plan.max_bytes := max_bytes;
    loop
        chosen := pgq._choose_jobs(plan, label, met_spent);
        exit when not plan.replaces
            or chosen.unique_ids is null or not pgq._end_replaced(chosen.unique_ids, 0, null);
        perform pgq._end_replaced_front(plan);
    end loop;

    -- Variables are faster to read than fields of a composite.
    most_attempts := plan.max_attempts;
    tids := chosen.tids;
    leaves := chosen.leaves;
    stamps := chosen.stamps;
    cut_short := coalesce(chosen.cut_short, false);
    begun := case when prefetch then tids[1] end;

    -- One segment per iteration; usually all rows are in the same. The tids stay valid: the rows
    -- are locked. Read the clock after locking: by then the transaction has its xid, on which the
    -- floor relies.
    lease_end := pgq._clock() + plan.lease;
    while first <= cardinality(tids) loop
        leaf := leaves[first];
        last := cardinality(tids);
        if leaf <> any(leaves) then
            last := first;
            while leaves[last + 1] = leaf loop
                last := last + 1;
            end loop;
        end if;

        -- Lateral with a limit: a plan made while the leaf was small could read all of it.
        -- for the first 16 leaves: leaf
        return query
        with gone as (
            delete from pgq.job as j
            where j.ctid = any({tids[first:last]})
            returning
                j.*, case when {begun} is null or j.ctid = {begun} then j.attempt + 1 end as counted
        ),

        taken as (
            insert into pgq.job (
                job_id,
                queue_id,
                partition_id,
                log_offset,
                expires_at,
                visible_at,
                segment,
                attempt,
                priority,
                last_attempt,
                lease_token,
                label,
                last_error,
                unique_key,
                max_attempts,
                ordered_key
            )
            select
                g.job_id,
                g.queue_id,
                g.partition_id,
                g.log_offset,
                g.expires_at,
                {lease_end},
                g.segment,
                coalesce(g.counted, g.attempt),
                g.priority,
                g.counted >= coalesce(g.max_attempts, {most_attempts}),
                {token},
                g.label,
                g.last_error,
                g.unique_key,
                g.max_attempts,
                case when {stamps} is null then g.ordered_key else {stamps} ->> g.job_id::text end
            from gone as g
        )

        select
            g.job_id, {token}, g.attempt + 1, {lease_end}, m.published_at, g.priority::integer,
            m.key, g.label, m.headers, m.payload, m.body, {cut_short},
            nullif(coalesce(g.max_attempts, {most_attempts}), 2147483647)
        from gone as g
        left join lateral (
            select k.published_at, k.key, k.headers, k.payload, k.body
            from pgq.message_{leaf} as k
            where k.partition_id = g.partition_id and k.log_offset = g.log_offset
            limit 1
        ) as m on true
        order by g.priority, g.visible_at, g.job_id;
        -- end of the leaf

        first := last + 1;
    end loop;

    if pgq._end_claim(plan, chosen, label) then
        -- The clock had been set back, and there were jobs below the floors, which are lowered now.
        return query select c.* from pgq._claim_jobs($1, $2, $3, $4, $5, $6, $7, false) as c;
    end if;
end
$$;

comment on function pgq._claim_jobs(
    text, integer, integer, interval, text, bigint, boolean, boolean
) is
'Claims jobs where the fast path of claim_job and finish_and_claim does not apply: many jobs,
priorities above 0, labels.
met_spent: the caller has just dead-lettered the first job, and there may be more of these.';
