create function pgq._note_end(ended pgq.job[], event text, result jsonb)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    target_id bigint;
    leaf integer;
begin
    for target_id in
        select distinct e.queue_id
        from unnest(ended) as e
        inner join pgq.queue as q on q.queue_id = e.queue_id and q.keep_results
        order by e.queue_id
    loop
        leaf := pgq._event_leaf(target_id);
        insert into pgq.job_event (job_id, queue_id, ended_at, segment, attempt, event, result)
        select
            e.job_id, e.queue_id, pgq._clock(), leaf,
            e.attempt + (e.last_attempt is null)::integer, event, result
        from unnest(ended) as e
        where e.queue_id = target_id;
    end loop;
end
$$;

comment on function pgq._note_end(pgq.job[], text, jsonb) is
'Notes how jobs have ended, those of queues with keep_results. The caller has removed their rows.';
