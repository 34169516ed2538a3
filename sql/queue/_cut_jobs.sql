create function pgq._cut_jobs(chosen pgq._chosen_jobs, kept integer)
returns pgq._chosen_jobs
language plpgsql stable parallel safe
as $$
begin
    if kept < cardinality(chosen.tids) then
        chosen.tids := chosen.tids[:kept];
        chosen.leaves := chosen.leaves[:kept];
        chosen.job_ids := chosen.job_ids[:kept];
        select
            array_agg(j.job_id) filter (where j.unique_key is not null),
            array_agg(j.job_id) filter (
                where j.lease_token is not null and j.last_attempt is not null
            )
        into chosen.unique_ids, chosen.lost_ids
        from pgq.job as j
        where j.ctid = any(chosen.tids);
        chosen.cut_short := true;
    end if;
    return chosen;
end
$$;

comment on function pgq._cut_jobs(pgq._chosen_jobs, integer) is
'Leaves all but the first of these jobs to the next claim.';
