create function pgq._check_job_filter(queue text, filter pgq._job_filter)
returns boolean
language plpgsql stable parallel unsafe
as $$
begin
    perform pgq._check_label(filter.label);
    if filter.after_id is not null then
        perform pgq._check_count('after_id', filter.after_id, 0, 9223372036854775807);
    end if;
    if filter.max_jobs is not null then
        perform pgq._check_count('max_jobs', filter.max_jobs, 1, 1000000);
    end if;
    if filter.error_contains = '' then
        raise exception 'argument "error_contains" must not be empty' using errcode = '22023';
    end if;
    if filter.key is not null and not exists (
        select from pgq.queue as q where q.queue = _check_job_filter.queue collate "C" and q.ordered
    ) then
        raise exception 'argument "key" must be null: the queue is not ordered'
            using errcode = '22023',
                detail = format('Queue "%s" is not ordered.', queue),
                hint = 'Filter by label: it is stored with the job.';
    end if;

    return num_nonnulls(
        filter.label, filter.error_contains, filter.key, filter.since, filter.before
    ) > 0;
end
$$;

comment on function pgq._check_job_filter(text, pgq._job_filter) is
'Rejects bad filters (22023), and returns whether there is one at all.';
