create function pgq._bury_exhausted(job_ids bigint[], max_attempts integer, moment timestamptz)
returns bigint
language plpgsql volatile parallel unsafe
as $$
declare
    exhausted bigint[];
begin
    exhausted := array(
        select j.job_id
        from pgq.job as j
        where j.job_id = any(job_ids)
            and j.attempt >= coalesce(j.max_attempts, _bury_exhausted.max_attempts)
            -- In no index in this form: a plan made on a small table would scan all due jobs.
            and j.visible_at + interval '0' <= moment
        for update skip locked
    );

    if cardinality(exhausted) > 0 then
        perform pgq._bury(exhausted, 0, null, null);
    end if;
    return cardinality(exhausted);
end
$$;

comment on function pgq._bury_exhausted(bigint[], integer, timestamptz) is
'Dead-letters those of these jobs that are due with all attempts used; returns how many.
max_attempts: the limit of jobs without one of their own.';
