create function pgq._free_keys(ended pgq._ended_job[])
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    gone record;
begin
    delete from pgq.unique_job as u
    where u.job_id = any(array(
        select e.job_id
        from unnest(ended) as e
        where e.unique_key is not null
    ));

    for gone in
        select e.queue_id, e.ordered_key, e.job_id, coalesce(q.ordered, false) as ordered
        from unnest(ended) as e
        left join pgq.queue as q on q.queue_id = e.queue_id
        where e.ordered_key is not null
        order by e.queue_id, e.ordered_key, e.job_id
    loop
        continue when gone.ordered and pgq._let_next(gone.queue_id, gone.ordered_key, gone.job_id);

        insert into pgq.key_wakeup (queue_id, look_at, ordered_key, after_id, tries)
        values (gone.queue_id, pgq._clock(), gone.ordered_key, gone.job_id, 0)
        on conflict do nothing;
        perform pgq._announce_queue(gone.queue_id);
    end loop;
end
$$;

comment on function pgq._free_keys(pgq._ended_job[]) is
'Releases the unique keys of jobs that have ended, and unblocks the next job of each ordered key.
Where that is not possible yet, and for limited keys (max_leased_per_key), writes a wake-up record
for the next claim. The caller has locked or removed the rows of the jobs.';
