create function pgq._check_redrive(
    job_id bigint, all_jobs boolean, max_jobs integer, per_second double precision
)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if (job_id is not null) = coalesce(all_jobs, false) then
        raise exception '"job_id", "all_jobs": exactly one is needed'
            using errcode = '22023', hint = 'Pass job_id, or all_jobs => true.';
    end if;
    if job_id is not null and num_nonnulls(max_jobs, per_second) > 0 then
        raise exception '"job_id" and "%" exclude each other',
            case when max_jobs is not null then 'max_jobs' else 'per_second' end
            using errcode = '22023';
    end if;
    if max_jobs is not null then
        perform pgq._check_count('max_jobs', max_jobs, 1, 1000000);
    end if;
    if per_second not between 0.001 and 1000000 then
        raise exception 'argument "per_second" must be from 0.001 to 1000000'
            using errcode = '22023', detail = format('Given: %s.', per_second);
    end if;
end
$$;

comment on function pgq._check_redrive(bigint, boolean, integer, double precision) is
'Refuses arguments of redrive that are out of range or exclude each other (22023).';
