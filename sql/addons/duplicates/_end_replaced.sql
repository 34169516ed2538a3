create function pgq._end_replaced(job_ids bigint[], uncounted integer, lost boolean)
returns boolean
language plpgsql volatile parallel unsafe
set enable_bitmapscan = off
as $$
declare
    gone pgq.job[];
    replaced_ids bigint[] := array(
        select j.job_id
        from pgq.job as j
        where j.job_id = any(job_ids)
            and (select q.on_duplicate from pgq.queue as q where q.queue_id = j.queue_id) <> 'keep'
            and exists (
                select
                from pgq.unique_job as u
                where u.queue_id = j.queue_id
                    and u.unique_key = j.unique_key
                    and u.job_id <> j.job_id
                    and u.is_newest
                    -- An expired job is not worked on any more.
                    and (
                        select (h.expires_at <= pgq._clock()) is not true
                        from pgq.job as h
                        where h.job_id = u.job_id
                    )
            )
    );
begin
    if replaced_ids = '{}' then
        return false;
    end if;
    perform pgq._note_lost(replaced_ids, uncounted, lost);

    with deleted as (delete from pgq.job as j where j.job_id = any(replaced_ids) returning j.*)

    select
        array_agg(
            jsonb_populate_record(
                row(d.*)::pgq.job, jsonb_build_object('attempt', d.attempt - uncounted)
            )
        )
    into gone
    from deleted as d;

    perform pgq._archive_jobs(gone, 'replaced');
    perform pgq._note_end(gone, 'replaced', null);
    perform pgq._free_keys(array(
        select row(g.job_id, g.queue_id, null, g.ordered_key)::pgq._ended_job
        from unnest(gone) as g
    ));
    return true;
end
$$;

comment on function pgq._end_replaced(bigint[], integer, boolean) is
'Ends those of these jobs that come back while a newer one holds their unique key, in queues whose
on_duplicate is not keep; returns whether there were any. The caller has locked the jobs. uncounted
and lost: see _dead_letter_jobs.';
