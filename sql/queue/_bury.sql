create function pgq._bury(job_ids bigint[], attempts integer, error text)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    with gone as (
        delete from pgq.job as j
        where j.job_id = any(_bury.job_ids)
        returning j.*
    )

    insert into pgq.dead_job (
        job_id, queue_id, segment, priority, attempt, died_at, label, last_error
    )
    select
        g.job_id,
        g.queue_id,
        g.segment,
        g.priority,
        least(g.attempt, _bury.attempts),
        pgq._clock(),
        g.label,
        coalesce(_bury.error, g.last_error)
    from gone as g;
end
$$;

comment on function pgq._bury(bigint[], integer, text) is
'Moves jobs, whose rows the caller has locked, to the dead ones.';
