create function pgq._clean_notes()
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    -- The limit of one call, for notes looked at.
    most constant integer := 10000;
    last_job_id bigint;
    looked_at bigint[];
    removed bigint;
begin
    if not exists (select from pgq.job_note) then
        return;
    end if;

    select w.last_value into last_job_id from pgq.job_note_walk as w;

    looked_at := array(
        select n.job_id
        from pgq.job_note as n
        where n.job_id > last_job_id
        order by n.job_id
        limit most
    );

    -- Each job is looked up by its id: a plain join may be planned to read all jobs. One in neither
    -- table has ended: a move between them is one transaction, so a snapshot always shows it in
    -- one.
    delete from pgq.job_note as n
    where n.job_id = any(array(
        select o.job_id
        from pgq.job_note as o
        left join lateral (
            select j.job_id
            from pgq.job as j
            where j.job_id = o.job_id
            limit 1
        ) as alive on true
        left join lateral (
            select d.job_id
            from pgq.dead_job as d
            where d.job_id = o.job_id
            limit 1
        ) as dead on true
        where o.job_id = any(looked_at) and alive.job_id is null and dead.job_id is null
        for update of o skip locked
    ));
    get diagnostics removed = row_count;

    perform setval(
        'pgq.job_note_walk', case when cardinality(looked_at) = most then looked_at[most] else 0 end
    );
    if removed > 0 then
        return next row('notes removed', 'jobs', removed)::pgq.cleanup_action;
    end if;
    if removed > 0 and cardinality(looked_at) = most then
        return next row('more', 'notes', 1)::pgq.cleanup_action;
    end if;
end
$$;

comment on function pgq._clean_notes() is
'Deletes the notes of jobs that have ended. Part of cleanup; it waits for no lock.';
