create function pgq.drop_queue(queue text)
returns void
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    target pgq.queue;
    newest_id bigint;
begin
    perform pgq._check_access(null, queue collate "C", 'admin');
    loop
        delete from pgq.queue as q
        where q.queue = drop_queue.queue collate "C"
        returning q.*
        into target;

        exit when target.queue_id is not null;
        perform pgq._check_queue(queue collate "C");
    end loop;

    -- Job batches first: jobs that a claim makes of them meanwhile are deleted below.
    perform pgq._drop_extents(target.queue_id);

    select s.last_value into newest_id from pgq.job_id as s;

    -- In the order in which jobs are locked everywhere: no deadlock. Jobs replaced or
    -- redriven while this waits for their rows are found by the next round; jobs enqueued from now
    -- on are removed by cleanup.
    loop
        delete from pgq.job as j
        where j.job_id = any(array(
            select k.job_id
            from pgq.job as k
            where k.queue_id = target.queue_id
            order by case when k.lease_token is null then k.unique_key end nulls first, k.job_id
            for update
        ));

        delete from pgq.dead_job as d
        where d.job_id = any(array(
            select e.job_id
            from pgq.dead_job as e
            where e.queue_id = target.queue_id
            order by e.job_id
            for update
        ));

        exit when not exists (
            select
            from pgq.job as j
            where j.queue_id = target.queue_id and j.job_id <= newest_id
        );
    end loop;
    delete from pgq.unique_job as u where u.queue_id = target.queue_id;
    delete from pgq.key_wakeup as n where n.queue_id = target.queue_id;
    delete from pgq.limited_key as k where k.queue_id = target.queue_id;
    -- SKIP LOCKED: keys that another transaction has locked are left to cleanup.
    delete from pgq.ordered_key as k
    where k.queue_id = target.queue_id
        and k.ordered_key = any(array(
            select l.ordered_key
            from pgq.ordered_key as l
            where l.queue_id = target.queue_id
            for update skip locked
        ));
    delete from pgq.queue_floor as f where f.queue_id = target.queue_id;
    delete from pgq.claim_count as c where c.queue_id = target.queue_id;
    -- After the jobs: finish_and_claim ends its job first and then waits for this row.
    delete from pgq.claim_lock as l where l.queue_id = target.queue_id;

    insert into pgq.dropped_range (
        partition_id, segment, first_offset, last_offset, queue_id, noted_xid
    )
    select
        target.partition_id, g.segment, 0, 9223372036854775807, target.queue_id,
        pg_current_xact_id()
    from pgq.segment as g
    inner join pgq.storage_class as c on c.storage_class_id = g.storage_class_id
    where c.retention is null and c.owner_id is null;
end
$$;

comment on function pgq.drop_queue(text) is
'Removes a queue with all its jobs, including leased, dead and archived ones.
Jobs of concurrent enqueues are removed too, and so are the idempotency keys of the queue.
Errors: MQ002 unknown queue, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';
