create function pgq._extend_lease(job_ids bigint[], lease_token uuid, lease interval)
returns setof bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if _extend_lease.lease is not null then
        perform pgq._check_interval('lease', _extend_lease.lease, false);
    end if;

    -- The transaction id first, then the clock: the floor relies on it.
    if pg_current_xact_id() is null then
        return;
    end if;

    -- Not joined with the queue: an old plan might walk all its jobs.
    return query
    update pgq.job as j
    set
        visible_at = pgq._clock() + coalesce(
            _extend_lease.lease,
            (select q.lease from pgq.queue as q where q.queue_id = j.queue_id),
            interval '0'
        )
    where j.job_id = any(_extend_lease.job_ids)
        and j.lease_token = _extend_lease.lease_token
        and j.visible_at > pgq._clock()
    returning j.job_id;
end
$$;

comment on function pgq._extend_lease(bigint[], uuid, interval) is
'Extends the leases that are current and have not run out, and returns the ids of these jobs.';
