create function pgq._note_attempts(
    queue_id bigint, job_ids bigint[], event text, since_then integer, error text, worker text,
    began_at timestamptz
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    leaf integer := pgq._event_leaf(queue_id);
    many bigint[];
begin
    if leaf is null then
        return;
    end if;

    with noted as (
        insert into pgq.job_event (
            job_id, queue_id, ended_at, began_at, segment, attempt, event, worker, error
        )
        select
            j.job_id, j.queue_id, pgq._clock(), began_at, leaf,
            j.attempt + (j.last_attempt is null)::integer - since_then, event, worker, error
        from pgq.job as j
        where j.job_id = any(job_ids)
        returning job_id, attempt
    )

    select array_agg(n.job_id)
    into many
    from noted as n
    where n.attempt % 20 = 0;

    if many is not null then
        -- At each 20th attempt, and at a redrive, which begins with 1 again: a segment has less
        -- than 40 of a job.
        perform pgq._trim_attempts(many, leaf);
    end if;
end
$$;

comment on function pgq._note_attempts(bigint, bigint[], text, integer, text, text, timestamptz) is
'Notes an attempt of these jobs of one queue, whose rows the caller has locked.
since_then: 1 if the next attempt has been counted already, else 0.';
