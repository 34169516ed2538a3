create function pgq.create_queue(
    queue text,
    lease interval default '30 seconds',
    max_attempts integer default 5,
    delay interval default '0',
    retention interval default '14 days',
    backoff interval default '1 second',
    backoff_max interval default '1 hour',
    backoff_jitter double precision default 0.1,
    archive boolean default true,
    notify boolean default false
)
returns pgq.queue_info
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    settings pgq.queue_info;
    new_id bigint;
    class pgq.storage_class;
begin
    perform pgq._check_name('queue', create_queue.queue);

    settings.queue := create_queue.queue;
    settings.lease := create_queue.lease;
    settings.max_attempts := create_queue.max_attempts;
    settings.delay := create_queue.delay;
    settings.retention := create_queue.retention;
    settings.backoff := create_queue.backoff;
    settings.backoff_max := create_queue.backoff_max;
    settings.backoff_jitter := create_queue.backoff_jitter;
    settings.archive := create_queue.archive;
    settings.notify := create_queue.notify;
    perform pgq._check_queue_settings(settings);

    -- One that is there is found without a lock.
    if exists (select from pgq.queue as q where q.queue = create_queue.queue) then
        -- An old snapshot may show one that was dropped since; it cannot be locked.
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            perform
            from pgq.queue as q
            where q.queue = create_queue.queue
            for key share;
        end if;

        perform pgq._fail_queue_exists(create_queue.queue);
    end if;

    class := pgq._storage_class(settings.retention, null, null);
    insert into pgq.queue (
        queue,
        partition_id,
        storage_class_id,
        segment,
        lease,
        max_attempts,
        delay,
        retention,
        backoff,
        backoff_max,
        backoff_jitter,
        archive,
        notify,
        created_at,
        updated_at
    )
    values (
        settings.queue,
        nextval('pgq.partition_id'),
        class.storage_class_id,
        class.segment,
        settings.lease,
        settings.max_attempts,
        settings.delay,
        settings.retention,
        settings.backoff,
        settings.backoff_max,
        settings.backoff_jitter,
        settings.archive,
        settings.notify,
        pgq._clock(),
        pgq._clock()
    )
    on conflict (queue) do nothing
    returning queue_id into new_id;

    if new_id is null then
        perform pgq._fail_queue_exists(create_queue.queue);
    end if;

    insert into pgq.queue_floor_lock (queue_id)
    values (new_id);

    insert into pgq.queue_floor (
        queue_id, seq, floor_times, floor_ids, recorded_at, safe_at, candidate_at, candidate_xid
    )
    values (
        new_id,
        1,
        array_fill('-infinity'::timestamptz, array[10]),
        array_fill(0::bigint, array[10]),
        '-infinity',
        '-infinity',
        '-infinity',
        '0'
    );

    return pgq._queue_info(create_queue.queue);
end
$$;

comment on function pgq.create_queue(
    text,
    interval,
    integer,
    interval,
    interval,
    interval,
    interval,
    double precision,
    boolean,
    boolean
) is
'Creates a queue and returns it.
lease: how long a worker has a job before another one may get it. max_attempts: deliveries before
a job is dead; null: no limit. delay: from enqueue to the first delivery. retention: from enqueue
until an unfinished job expires, and how long finished and dead ones are kept; null: for ever.
backoff: the delay before the first retry; each further one doubles it up to backoff_max, and up
to the share backoff_jitter (0 to 1) is added at random. archive: ack notes the job among the
archived ones. notify: an enqueue notifies the channel pgq_queue with the queue''s name.
Errors: MQ005 the queue exists already, 22023 bad name or setting, 22004 null, 40001 under
REPEATABLE READ or SERIALIZABLE when another transaction was first (try again).';
