create function pgq._check_purge(
    dead_only boolean, job_id bigint, all_jobs boolean, is_filtered boolean, walks boolean
)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if num_nonnulls(
        nullif(dead_only, false), job_id, nullif(all_jobs, false), nullif(is_filtered, false)
    ) <> 1 then
        raise exception 'exactly one of "dead_only", "job_id", "all_jobs" and a filter is needed'
            using errcode = '22023',
                hint = 'Pass dead_only => true (all dead letters), all_jobs => true (everything), '
                    'job_id, or some of label, error_contains, key, died_since and died_before.';
    end if;
    if walks and (job_id is not null or all_jobs) then
        raise exception 'only "dead_only" and filters take "max_jobs", "after_id" and "dry_run"'
            using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_purge(boolean, bigint, boolean, boolean, boolean) is
'Refuses arguments of purge_queue that exclude each other (22023).';
