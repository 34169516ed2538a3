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
        job_id,
        queue_id,
        partition_id,
        log_offset,
        segment,
        priority,
        attempt,
        died_at,
        label,
        last_error
    )
    select
        g.job_id,
        g.queue_id,
        g.partition_id,
        g.log_offset,
        g.segment,
        g.priority,
        least(g.attempt, _bury.attempts),
        pgq._clock(),
        g.label,
        case
            -- It was redriven after it had ended in the same way.
            when right(g.last_error, length(_bury.error)) = _bury.error then g.last_error
            else nullif(concat_ws(E'\n', g.last_error, _bury.error), '')
        end
    from gone as g;
end
$$;

comment on function pgq._bury(bigint[], integer, text) is
'Moves jobs, whose rows the caller has locked, to the dead ones; what happened last is added to the
error of the last nack.';
