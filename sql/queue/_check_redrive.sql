create function pgq._check_redrive(
    job_id bigint, all_jobs boolean, max_jobs integer, per_second double precision,
    is_filtered boolean, walks boolean
)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if num_nonnulls(job_id, nullif(all_jobs, false), nullif(is_filtered, false)) <> 1 then
        raise exception 'exactly one of "job_id", "all_jobs" and a filter is needed'
            using errcode = '22023',
                hint = 'Pass job_id, all_jobs => true, or some of label, error_contains, key, '
                    'died_since and died_before.';
    end if;
    if job_id is not null and (num_nonnulls(max_jobs, per_second) > 0 or walks) then
        raise exception '"job_id" and "%" exclude each other',
            case
                when max_jobs is not null then 'max_jobs'
                when per_second is not null then 'per_second'
                else 'after_id", "dry_run'
            end
            using errcode = '22023';
    end if;
    if per_second not between 0.001 and 1000000 then
        raise exception 'argument "per_second" must be from 0.001 to 1000000'
            using errcode = '22023', detail = format('Given: %s.', per_second);
    end if;
end
$$;

comment on function pgq._check_redrive(
    bigint, boolean, integer, double precision, boolean, boolean
) is
'Refuses arguments of redrive that are out of range or exclude each other (22023).';
