create function pgq._dead_letter_exhausted(
    job_ids bigint[], max_attempts integer, now_at timestamptz
)
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
            and j.attempt >= coalesce(j.max_attempts, _dead_letter_exhausted.max_attempts)
            -- In no index in this form: a plan made on a small table would scan all due jobs.
            and j.visible_at + interval '0' <= now_at
        for update skip locked
    );

    if cardinality(exhausted) > 0 then
        perform pgq._dead_letter_jobs(exhausted, 0, null, null);
    end if;
    return cardinality(exhausted);
end
$$;

comment on function pgq._dead_letter_exhausted(bigint[], integer, timestamptz) is
'Dead-letters those of these jobs that are due with all attempts used; returns how many.
max_attempts: the limit of jobs without one of their own.';
