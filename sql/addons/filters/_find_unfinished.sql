create function pgq._find_unfinished(act text, queue text, all_jobs boolean, filter pgq._job_filter)
returns pgq._found_jobs
language plpgsql volatile parallel unsafe
as $$
declare
    target_id bigint := pgq._queue_id(queue, 'consume');
begin
    if pgq._check_job_filter(queue, filter) = coalesce(all_jobs, false) then
        raise exception 'either "all_jobs" or a filter is needed'
            using errcode = '22023',
                hint = 'Pass all_jobs => true, or label, error_contains, key, due_since or '
                    'due_before.';
    end if;

    return pgq._find_jobs(act, target_id, filter);
end
$$;

comment on function pgq._find_unfinished(text, text, boolean, pgq._job_filter) is
'Finds the unfinished jobs of a queue that cancel_jobs or retry_jobs is about, see _find_jobs.';
