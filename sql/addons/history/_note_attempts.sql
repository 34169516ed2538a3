create function pgq._note_attempts(
    job_ids bigint[], event text, since_then integer, error text, worker text, began_at timestamptz
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    -- So many are kept of a job at least, and less than twice as many.
    kept constant integer := 20;
    leaf integer := pgq._event_leaf(
        (select j.queue_id from pgq.job as j where j.job_id = any(job_ids) limit 1)
    );
    many bigint[];
begin
    if length(worker) > 255 then
        raise exception 'argument "worker" must have at most 255 characters'
            using errcode = '22023';
    end if;
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
    where n.attempt % kept = 0;

    if many is not null then
        delete from pgq.job_event as e
        using (
            select
                o.job_id, o.segment, o.ended_at,
                row_number() over (partition by o.job_id order by o.ended_at desc) as place
            from pgq.job_event as o
            where o.job_id = any(many)
        ) as old
        where old.place > kept
            and e.job_id = old.job_id and e.segment = old.segment and e.ended_at = old.ended_at;
    end if;
end
$$;

comment on function pgq._note_attempts(bigint[], text, integer, text, text, timestamptz) is
'Notes an attempt of these jobs of one queue, whose rows the caller has locked.
since_then: 1 if the next attempt has been counted already, else 0.';
