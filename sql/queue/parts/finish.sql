-- Not found may mean that the row was made anew while this statement waited for it: by a heartbeat
-- of the same worker, say. Then it is there now.
loop
    delete from pgq.job as j
    where j.job_id = number
        and j.lease_token = {function}.lease_token
    returning
        j.queue_id,
        j.segment,
        j.attempt,
        j.label,
        j.last_error,
        j.partition_id,
        j.log_offset
    into
        finished_queue_id,
        finished_leaf,
        finished_attempt,
        finished_label,
        finished_error,
        finished_store_id,
        finished_store_offset;

    exit when finished_queue_id is not null
        or not pgq._still_leased(array[number], {function}.lease_token);
end loop;

if finished_queue_id is not null then
    -- for the leaf: finished_leaf
    insert into pgq.job_archive_{leaf} (
        job_id,
        queue_id,
        ended_at,
        segment,
        attempt,
        outcome,
        label,
        last_error,
        partition_id,
        log_offset
    )
    select
        {number},
        {finished_queue_id},
        pgq._clock(),
        {leaf},
        {finished_attempt},
        'acked',
        {finished_label},
        {finished_error},
        nullif({finished_store_id}, q.partition_id),
        case when q.partition_id <> {finished_store_id} then {finished_store_offset} end
    from pgq.queue as q
    where q.queue_id = {finished_queue_id}
        and q.archive;
    -- end of the leaf
end if;
