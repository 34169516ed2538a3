create function pgq._job_state(
    lease_token uuid, visible_at timestamptz, expires_at timestamptz, due_at timestamptz,
    now_at timestamptz
)
returns text
language sql immutable parallel safe
as $$
select case
    when lease_token is not null and visible_at > now_at then 'leased'
    when expires_at <= now_at then 'expired'
    when due_at is not null then 'waiting'
    when visible_at <= now_at then 'ready'
    else 'delayed'
end
$$;

comment on function pgq._job_state(uuid, timestamptz, timestamptz, timestamptz, timestamptz) is
'The state of an unfinished job, in the words of get_job.';
