create function pgq._bury(job_ids bigint[], uncounted integer, lost boolean)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    ran_out constant text := 'the lease of the last attempt ran out';
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
        g.attempt - _bury.uncounted,
        pgq._clock(),
        g.label,
        case
            -- A nack has said why.
            when not coalesce(_bury.lost, g.lease_token is not null) then g.last_error
            -- It was redriven after it had ended in the same way.
            when right(g.last_error, length(ran_out)) = ran_out then g.last_error
            else concat_ws(E'\n', g.last_error, ran_out)
        end
    from gone as g;
end
$$;

comment on function pgq._bury(bigint[], integer, boolean) is
'Moves jobs, whose rows the caller has locked, to the dead ones. uncounted: deliveries that came to
nothing; lost: whether a lease ran out, which is added to the error of the last nack; null: where
the row has a lease token.';
