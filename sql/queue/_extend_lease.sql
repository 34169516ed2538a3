create function pgq._extend_lease(
    job_ids bigint[], lease_token uuid, lease interval, begun bigint[]
)
returns setof bigint
language plpgsql volatile parallel unsafe
as $$
declare
    rest bigint[] := job_ids;
    extended bigint[];
    now_at timestamptz;
begin
    if lease is not null then
        perform pgq._check_interval('lease', lease, false);
    end if;

    -- Assign the xid before reading the clock: the floor relies on this order.
    if pg_current_xact_id() is null then
        return;
    end if;

    while cardinality(rest) > 0 loop
        -- Read the clock after locking: a claim of a queue with max_leased locks jobs whose lease
        -- has run out, and does not count them.
        perform
        from pgq.job as j
        where j.job_id = any(rest) and j.lease_token = _extend_lease.lease_token
        order by j.job_id
        for update;
        now_at := pgq._clock();

        -- Delete and insert, as in a claim. No join with the queue: an old prepared plan might scan
        -- all its jobs. For the same reason the condition on visible_at matches no index.
        with gone as (
            delete from pgq.job as j
            where j.job_id = any(rest)
                and j.lease_token = _extend_lease.lease_token
                and j.visible_at - now_at > interval '0'
            returning j as job
        ),

        kept as (
            insert into pgq.job
            select m.*
            from gone as g
            cross join lateral (
                select greatest(
                    (g.job).visible_at,
                    pgq._clock() + coalesce(
                        lease,
                        (select q.lease from pgq.queue as q where q.queue_id = (g.job).queue_id),
                        interval '0'
                    )
                ) as leased_until
            ) as t
            cross join lateral pgq._moved_job(
                case
                    when (g.job).last_attempt is null and (g.job).job_id = any(begun)
                    then pgq._begun_job(g.job)
                    else g.job
                end,
                t.leased_until, (g.job).lease_token, (g.job).ordered_key, null
            ) as m
            returning job_id
        )

        select array_agg(k.job_id)
        into extended
        from kept as k;

        return query select unnest(extended);

        -- A job not found may have got a new row while this statement waited: try again.
        exit when cardinality(extended) = cardinality(rest);
        rest := array(select unnest(rest) except select unnest(extended));
        exit when cardinality(rest) = 0
            or not pgq._still_leased(rest, lease_token)
            or not exists (
                select
                from pgq.job as j
                where j.job_id = any(rest)
                    and j.lease_token = _extend_lease.lease_token
                    and j.visible_at - now_at > interval '0'
            );
    end loop;
end
$$;

comment on function pgq._extend_lease(bigint[], uuid, interval, bigint[]) is
'Extends leases that are current and have not run out; returns the ids of these jobs.';
