create function pgq._block_jobs(queue_id bigint, job_ids bigint[], limited_keys text[])
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- visible_at infinity hides the job from claims, and ordered_key sorts it among the blocked
    -- jobs of its key. An expired lease ends here.
    perform pgq._note_lost(job_ids, 0, null);
    with gone as (delete from pgq.job as j where j.job_id = any(job_ids) returning j as job)

    insert into pgq.job
    select m.*
    from gone as g
    inner join unnest(job_ids, limited_keys) as p (job_id, limited_key) on p.job_id = (g.job).job_id
    cross join lateral pgq._moved_job(
        g.job, 'infinity', null,
        pgq._blocked_position(p.limited_key, (g.job).priority, (g.job).visible_at, (g.job).job_id),
        (g.job).visible_at
    ) as m;

    -- An old snapshot may show a lease that has ended since. A claim in between may have consumed
    -- its wake-up record while no job was blocked: record another look at the key.
    if pgq._keeps_snapshot() then
        insert into pgq.key_wakeup (queue_id, look_at, ordered_key, after_id, tries)
        select queue_id, pgq._clock(), k.limited_key, -1, 0
        from (select distinct p.limited_key from unnest(limited_keys) as p (limited_key)) as k
        on conflict do nothing;
    end if;
end
$$;

comment on function pgq._block_jobs(bigint, bigint[], text[]) is
'Blocks (parks) due jobs whose keys are at the limit; the caller has locked their rows.
Above READ COMMITTED it leaves a wake-up record that makes the next claim look at these keys.';
