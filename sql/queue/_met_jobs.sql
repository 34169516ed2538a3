create function pgq._met_jobs(
    queue_id bigint, max_jobs integer, label text, most_attempts integer, now_at timestamptz,
    floor_times timestamptz[], floor_ids bigint[]
)
returns pgq._met_job[]
language plpgsql volatile parallel unsafe
as $$
begin
    -- The same search as in _choose_jobs. LIMIT stops the scan, and so the row locks.
    if label is null then
        return (
            select array_agg(c.met)
            from (
                select j.met
                from unnest(floor_times, floor_ids) with ordinality
                    as f (floor_time, floor_id, priority)
                cross join lateral (
                    select
                        row(
                            k.ctid,
                            k.segment,
                            k.partition_id,
                            k.log_offset,
                            k.job_id,
                            k.priority,
                            k.visible_at,
                            k.unique_key,
                            k.last_attempt,
                            k.lease_token is not null and k.last_attempt is not null
                        )::pgq._met_job as met
                    from pgq.job as k
                    where k.queue_id = _met_jobs.queue_id
                        and k.priority = f.priority - 1
                        and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                        and k.visible_at <= now_at
                        and (k.expires_at is null or k.expires_at > now_at)
                        and k.attempt < coalesce(k.max_attempts, most_attempts)
                    order by k.visible_at, k.job_id
                    limit max_jobs
                    for update skip locked
                ) as j
                limit max_jobs
            ) as c
        );
    end if;

    return (
        select array_agg(c.met)
        from (
            select j.met
            from unnest(floor_times, floor_ids) with ordinality
                as f (floor_time, floor_id, priority)
            cross join lateral (
                select
                    row(
                        k.ctid,
                        k.segment,
                        k.partition_id,
                        k.log_offset,
                        k.job_id,
                        k.priority,
                        k.visible_at,
                        k.unique_key,
                        k.last_attempt,
                        k.lease_token is not null and k.last_attempt is not null
                    )::pgq._met_job as met
                from pgq.job as k
                where -k.queue_id = -_met_jobs.queue_id
                    and k.label = _met_jobs.label
                    and k.priority = f.priority - 1
                    and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                    and k.visible_at <= now_at
                    and (k.expires_at is null or k.expires_at > now_at)
                    and k.attempt < coalesce(k.max_attempts, most_attempts)
                order by k.visible_at, k.job_id
                limit max_jobs
                for update skip locked
            ) as j
            limit max_jobs
        ) as c
    );
end
$$;

comment on function pgq._met_jobs(
    bigint, integer, text, integer, timestamptz, timestamptz[], bigint[]
) is
'Locks and returns the next max_jobs due jobs of a queue, or of one label, from these floors on.';
