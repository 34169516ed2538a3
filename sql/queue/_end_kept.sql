create function pgq._end_kept(
    job_id bigint, finished_queue_id bigint, leaf integer, finished_attempt integer,
    finished_label text, job_error text, store_id bigint, store_offset bigint
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    archives boolean;
    own_store_id bigint;
    event_leaf integer;
begin
    select q.archive, q.partition_id
    into archives, own_store_id
    from pgq.queue as q
    where q.queue_id = finished_queue_id;

    -- Null: the queue was dropped.
    if archives is null then
        return;
    end if;
    if archives then
        -- paste: parts/archive.plpgsql with job_id = job_id
    end if;

    event_leaf := pgq._event_leaf(finished_queue_id);
    insert into pgq.job_event (job_id, queue_id, ended_at, segment, attempt, event)
    values (job_id, finished_queue_id, pgq._clock(), event_leaf, finished_attempt, 'finished');
end
$$;

comment on function pgq._end_kept(bigint, bigint, integer, integer, text, text, bigint, bigint) is
'Archives a job of a queue with keep_results if that archives, and notes that it has finished. Its
row is removed.';
