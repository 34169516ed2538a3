create function pgq._leased_jobs(queue_id bigint, now_at timestamptz)
returns bigint[]
language plpgsql volatile parallel unsafe
as $$
begin
    return array(
        select k.job_id
        from generate_series(0, 9) as p (priority)
        cross join lateral (
            select j.job_id
            from pgq.job as j
            where j.queue_id = _leased_jobs.queue_id
                and j.priority = p.priority
                and j.visible_at > now_at
                -- Above are the blocked jobs.
                and j.visible_at < 'infinity'
                and j.lease_token is not null
        ) as k
    );
end
$$;

comment on function pgq._leased_jobs(bigint, timestamptz) is
'Returns the jobs of a queue that are leased at this time.';
