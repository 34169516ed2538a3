create function pgq._due_at(
    queue text,
    moment timestamptz,
    delay interval,
    run_at timestamptz,
    job_ttl interval
)
returns timestamptz
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    due_at timestamptz;
begin
    if _due_at.delay is not null and _due_at.run_at is not null then
        raise exception '"delay" and "run_at" exclude each other'
            using errcode = '22023';
    end if;
    if _due_at.delay is not null then
        perform pgq._check_interval('delay', _due_at.delay, true);
    end if;
    if not isfinite(_due_at.run_at) then
        raise exception 'argument "run_at" must be finite'
            using errcode = '22023';
    end if;

    due_at := greatest(_due_at.moment, coalesce(_due_at.run_at, _due_at.moment + _due_at.delay));
    if due_at >= _due_at.moment + _due_at.job_ttl then
        raise exception 'the job would expire before it is due'
            using errcode = '22023',
                detail = format(
                    'The job_ttl of queue "%s" is %s.', _due_at.queue, _due_at.job_ttl
                );
    end if;
    return due_at;
end
$$;

comment on function pgq._due_at(text, timestamptz, interval, timestamptz, interval) is
'When a job with a delay or a time of its own may be claimed first; refuses what is not possible
(22023).';
