create function pgq._stamp_leased(queue_id bigint, now_at timestamptz)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    leased_ids bigint[] := pgq._leased_jobs(queue_id, now_at);
    met pgq._met_job[];
    changes pgq.limited_key[];
begin
    -- SKIP LOCKED: a locked job is just ending, or is found by the second count (see _open_keys).
    select array_agg(l.met)
    into met
    from (
        select
            row(
                j.ctid,
                j.segment,
                j.partition_id,
                j.log_offset,
                j.job_id,
                j.priority,
                j.visible_at,
                j.unique_key,
                j.last_attempt,
                false
            )::pgq._met_job as met
        from pgq.job as j
        where j.job_id = any(leased_ids)
        order by j.job_id
        for update skip locked
    ) as l;

    with keyed as materialized (
        select k.job_id, k.limited_key
        from (select distinct t.segment from unnest(met) as t) as s
        cross join lateral pgq._keys_of_jobs(s.segment, met) as k
    ),

    -- With an ordered_key, the end of the job leaves a wake-up record.
    stamped as (
        update pgq.job as j
        set ordered_key = k.limited_key
        from keyed as k
        where j.job_id = k.job_id and j.ordered_key is distinct from k.limited_key
    )

    select array_agg(row(queue_id, u.limited_key, null, u.job_ids, null)::pgq.limited_key)
    into changes
    from (
        select a.limited_key, array_agg(distinct a.job_id order by a.job_id) as job_ids
        from (
            select k.limited_key, k.job_id
            from keyed as k
            union all
            select d.limited_key, i.job_id
            from (select distinct k.limited_key from keyed as k) as d
            cross join lateral (
                select h.job_ids
                from pgq.limited_key as h
                where h.queue_id = _stamp_leased.queue_id and h.limited_key = d.limited_key
                order by h.seq desc
                limit 1
            ) as l
            cross join lateral unnest(l.job_ids) as i (job_id)
        ) as a
        group by a.limited_key
    ) as u;

    if changes is not null then
        perform pgq._write_keys(changes, false);
    end if;
end
$$;

comment on function pgq._stamp_leased(bigint, timestamptz) is
'Counts jobs that were leased before max_leased_per_key was switched on. The caller holds the
claim_lock of the queue.';
