create function pgq.drop_queue(queue text)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    target pgq.queue;
begin
    delete from pgq.queue as q
    where q.queue = drop_queue.queue
    returning q.*
    into target;

    if target.queue_id is null then
        perform pgq._fail_unknown_queue(drop_queue.queue);
    end if;

    delete from pgq.job as j
    where j.queue_id = target.queue_id;
    delete from pgq.dead_job as d
    where d.queue_id = target.queue_id;
    delete from pgq.queue_floor as f
    where f.queue_id = target.queue_id;

    -- As for the messages: where there is no retention, nothing else would remove them.
    if target.retention is null then
        delete from pgq.job_archive as a
        where a.queue_id = target.queue_id;
    end if;
    perform pgq._forget_messages(array[target.partition_id], target.storage_class_id);
end
$$;

comment on function pgq.drop_queue(text) is
'Removes a queue with its jobs, leased and dead ones too.
Jobs that are enqueued at the same time go with it.
Errors: MQ002 unknown queue.';
