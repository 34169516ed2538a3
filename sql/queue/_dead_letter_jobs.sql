create function pgq._dead_letter_jobs(job_ids bigint[], uncounted integer, lost boolean, error text)
returns void
language plpgsql volatile parallel unsafe
set enable_bitmapscan = off
as $$
declare
    ran_out constant text := 'the lease of the last attempt ran out';
    freed pgq._ended_job[];
begin
    perform pgq._note_lost(job_ids, uncounted, lost);

    with gone as (delete from pgq.job as j where j.job_id = any(job_ids) returning j.*),

    dead_lettered as (
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
            last_error,
            unique_key,
            max_attempts,
            ordered_key,
            stops_key
        )
        select
            g.job_id,
            g.queue_id,
            g.partition_id,
            g.log_offset,
            g.segment,
            g.priority,
            g.attempt - uncounted,
            pgq._clock(),
            g.label,
            case
                when error is not null then error
                -- The last nack recorded the reason.
                when not coalesce(lost, g.lease_token is not null) then g.last_error
                -- Redriven after it had died in the same way: do not append the text twice.
                when right(g.last_error, length(ran_out)) = ran_out then g.last_error
                else concat_ws(E'\n', g.last_error, ran_out)
            end,
            g.unique_key,
            g.max_attempts,
            g.ordered_key,
            g.ordered_key is not null
            and coalesce(
                (
                    select q.ordered and q.after_dead_letter = 'stop'
                    from pgq.queue as q
                    where q.queue_id = g.queue_id
                ),
                false
            )
        from gone as g
        returning job_id, queue_id, unique_key, ordered_key, stops_key
    )

    select
        array_agg(
            row(
                b.job_id, b.queue_id,
                case
                    when (
                        select q.unique_until
                        from pgq.queue as q
                        where q.queue_id = b.queue_id
                    ) is distinct from 'removed' then b.unique_key
                end,
                case when not b.stops_key then b.ordered_key end
            )::pgq._ended_job
        )
    into freed
    from dead_lettered as b
    where b.unique_key is not null or b.ordered_key is not null;

    if freed is not null then
        perform pgq._free_keys(freed);
    end if;
end
$$;

comment on function pgq._dead_letter_jobs(bigint[], integer, boolean, text) is
'Dead-letters jobs whose rows the caller has locked.
uncounted: attempts that do not count; lost: whether a lease ran out, which is appended to the error
of the last nack (null: if the row has a lease token); error: a message of the worker that replaces
it (null: none).';
