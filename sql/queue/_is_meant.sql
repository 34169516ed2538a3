create function pgq._is_meant(act text, job pgq.job, filter pgq._job_filter)
returns boolean
language sql stable parallel safe
as $$
select
    case
        when act = 'cancel' then coalesce((filter).leased, false) or pgq._is_free(job)
        else pgq._is_waiting(job)
    end
    and pgq._filter_matches(
        filter, (_is_meant.job).label, (_is_meant.job).last_error, (_is_meant.job).ordered_key,
        coalesce((_is_meant.job).due_at, (_is_meant.job).visible_at)
    )
$$;

comment on function pgq._is_meant(text, pgq.job, pgq._job_filter) is
'Whether an unfinished job matches a filter, and can be cancelled or made due now. act: cancel or
retry.';
