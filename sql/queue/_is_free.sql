create function pgq._is_free(job pgq.job)
returns boolean
language sql stable parallel safe
as $$
select (_is_free.job).lease_token is null or (_is_free.job).visible_at <= pgq._clock()
$$;

comment on function pgq._is_free(pgq.job) is 'Whether no worker has this unfinished job.';
