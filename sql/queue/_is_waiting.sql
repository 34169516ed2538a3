create function pgq._is_waiting(job pgq.job)
returns boolean
language sql stable parallel safe
as $$
select
    (_is_waiting.job).lease_token is null
    and (_is_waiting.job).due_at is null
    and (_is_waiting.job).visible_at > pgq._clock()
    and coalesce((_is_waiting.job).expires_at, 'infinity') > pgq._clock()
$$;

comment on function pgq._is_waiting(pgq.job) is
'Whether an unfinished job waits for its time: no worker has it, and no other job blocks it.';
