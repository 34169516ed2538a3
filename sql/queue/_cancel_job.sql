create function pgq._cancel_job(job_id bigint, filter pgq._job_filter)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    gone pgq.job;
begin
    -- A missing row may have been replaced (delete and insert) while this statement waited. Above
    -- READ COMMITTED its absence has to be proved.
    loop
        if pgq._hides_job(job_id) then
            return false;
        end if;

        delete from pgq.job as j
        where j.job_id = _cancel_job.job_id and pgq._is_meant('cancel', j, filter)
        returning j.* into gone;

        exit when found;
        perform pgq._still_leased(array[job_id], null);
        if not exists (
            select
            from pgq.job as j
            where j.job_id = _cancel_job.job_id and pgq._is_meant('cancel', j, filter)
        ) then
            return false;
        end if;
    end loop;

    perform pgq._archive_jobs(array[gone], 'cancelled');
    perform pgq._note_end(array[gone], 'cancelled', null);

    if gone.due_at is not null then
        -- Blocked by another job of its key: the key does not change.
        gone.ordered_key := null;
    end if;
    if gone.unique_key is not null or gone.ordered_key is not null then
        perform pgq._free_keys(array[
            row(gone.job_id, gone.queue_id, gone.unique_key, gone.ordered_key)::pgq._ended_job
        ]);
    end if;
    return true;
end
$$;

comment on function pgq._cancel_job(bigint, pgq._job_filter) is
'Cancels an unfinished job, if it matches the filter, of a queue that the caller may consume; false
when there is none.';
