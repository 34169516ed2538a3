create function pgq._due_at(
    queue text, now_at timestamptz, delay interval, run_at timestamptz, job_ttl interval
)
returns timestamptz
language plpgsql immutable parallel safe
as $$
declare
    due_at timestamptz;
begin
    if delay is not null and run_at is not null then
        raise exception '"delay" and "run_at" exclude each other' using errcode = '22023';
    end if;
    if delay is not null then
        perform pgq._check_interval('delay', delay, true);
    end if;
    if not isfinite(run_at) then
        raise exception 'argument "run_at" must be finite' using errcode = '22023';
    end if;

    due_at := greatest(now_at, coalesce(run_at, now_at + delay));
    if due_at >= now_at + job_ttl then
        raise exception 'the job would expire before it is due'
            using errcode = '22023',
                detail = format('The job_ttl of queue "%s" is %s.', queue, job_ttl);
    end if;
    return due_at;
end
$$;

comment on function pgq._due_at(text, timestamptz, interval, timestamptz, interval) is
'Returns the time from which a job with a delay or a run_at may be claimed; rejects invalid values
(22023).';
