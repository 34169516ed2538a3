create function pgq._finish(
    job_ids bigint[],
    lease_token uuid,
    outcome text,
    result jsonb,
    always boolean
)
returns setof bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    return query
    with finished as (
        delete from pgq.job as j
        where j.job_id = any(_finish.job_ids)
            and j.lease_token = _finish.lease_token
        returning j.*
    ),

    archived as (
        insert into pgq.job_archive (
            job_id, queue_id, ended_at, segment, attempt, outcome, label, result, last_error
        )
        select
            f.job_id,
            f.queue_id,
            pgq._clock(),
            f.segment,
            f.attempt,
            _finish.outcome,
            f.label,
            _finish.result,
            f.last_error
        from finished as f
        inner join pgq.queue as q on q.queue_id = f.queue_id
        where q.archive or _finish.always
    )

    select f.job_id
    from finished as f;
end
$$;

comment on function pgq._finish(bigint[], uuid, text, jsonb, boolean) is
'Ends jobs whose lease token is current, archives them where asked, and returns the ids of those it
ended.';
