create function pgq._cut_jobs(chosen pgq._chosen_jobs, kept integer)
returns pgq._chosen_jobs
language plpgsql stable parallel safe
as $$
begin
    if kept < cardinality(chosen.tids) then
        chosen.tids := chosen.tids[:kept];
        chosen.leaves := chosen.leaves[:kept];
        chosen.job_ids := chosen.job_ids[:kept];
        select array_agg(j.job_id)
        into chosen.unique_ids
        from pgq.job as j
        where j.ctid = any(chosen.tids) and j.unique_key is not null;
        chosen.cut_short := true;
    end if;
    return chosen;
end
$$;

comment on function pgq._cut_jobs(pgq._chosen_jobs, integer) is
'Leaves all but the first of these jobs to the next claim.';
