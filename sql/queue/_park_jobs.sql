create function pgq._park_jobs(queue_id bigint, job_ids bigint[], limited_keys text[])
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- Out of the way of claims, where it finds its turn. A lease that has run out is over.
    with gone as (delete from pgq.job as j where j.job_id = any(_park_jobs.job_ids) returning j.*)

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
        label,
        last_error,
        unique_key,
        max_attempts,
        ordered_key,
        due_at
    )
    select
        g.job_id,
        g.queue_id,
        g.partition_id,
        g.log_offset,
        g.expires_at,
        'infinity',
        g.segment,
        g.attempt,
        g.priority,
        g.last_attempt,
        g.label,
        g.last_error,
        g.unique_key,
        g.max_attempts,
        pgq._parked_place(p.limited_key, g.priority, g.visible_at, g.job_id),
        g.visible_at
    from gone as g
    inner join unnest(_park_jobs.job_ids, _park_jobs.limited_keys) as p (job_id, limited_key)
        on p.job_id = g.job_id;

    -- An older snapshot may show a lease that has ended since. A claim in between has settled the
    -- note of that, and saw nothing parked: so the next claim is to look at the key again.
    if current_setting('transaction_isolation') <> 'read committed' then
        insert into pgq.ordered_note (queue_id, look_at, ordered_key, after_id, tries)
        select _park_jobs.queue_id, pgq._clock(), k.limited_key, -1, 0
        from (
            select distinct p.limited_key
            from unnest(_park_jobs.limited_keys) as p (limited_key)
        ) as k
        on conflict do nothing;
    end if;
end
$$;

comment on function pgq._park_jobs(bigint, bigint[], text[]) is
'Puts due jobs, which the caller has locked, out of the way of claims, as their keys are at the
limit; above READ COMMITTED with a note that makes the next claim look at these keys.';
