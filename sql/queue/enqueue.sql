create function pgq.enqueue(
    queue text,
    payload jsonb default null,
    key text default null,
    headers jsonb default null,
    delay interval default null,
    run_at timestamptz default null,
    priority integer default 0,
    label text default null,
    idempotency_key text default null,
    unique_key text default null,
    max_attempts integer default null,
    body bytea default null
)
returns setof pgq.enqueue_result
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    target_id bigint;
    store_id bigint;
    leaf integer;
    queue_delay interval;
    ttl interval;
    usual boolean;
    roles text [];
    caller text;
    moment timestamptz;
    due_at timestamptz;
    holder_id bigint;
    turn_key text;
    turn_at timestamptz;
    free text[];
    added pgq.enqueue_result;
begin
    -- The transaction id first, then the segment and the clock: cleanup and the floor rely on it.
    -- They wait for every transaction that was running when a segment was sealed, or a floor
    -- proposed. Few conditions, since each of them takes time.
    if (enqueue.payload is null) = (enqueue.body is null)
        or enqueue.priority <> 0
        or num_nonnulls(
            enqueue.headers,
            enqueue.label,
            enqueue.idempotency_key,
            enqueue.unique_key,
            enqueue.max_attempts
        ) > 0
        or current_setting('transaction_isolation') <> 'read committed'
        or pg_current_xact_id() is null
    then
        perform pgq._check_content(enqueue.payload, enqueue.headers, enqueue.body);
        perform pgq._check_count('priority', coalesce(enqueue.priority, 0), 0, 9);
        perform pgq._check_label(enqueue.label collate "C");
        perform pgq._check_unique_key(enqueue.unique_key collate "C");
        if enqueue.max_attempts is not null then
            perform pgq._check_count('max_attempts', enqueue.max_attempts, 1, 2147483647);
        end if;

        if enqueue.idempotency_key is not null then
            perform pgq._check_idempotency_keys(
                'idempotency_key', array[enqueue.idempotency_key collate "C"], 1
            );
            return query
            select k.job_id, k.duplicate
            from pgq._enqueue_keyed(
                enqueue.queue collate "C",
                case when enqueue.payload is not null then array[enqueue.payload] end,
                array[enqueue.key],
                array[enqueue.headers],
                enqueue.delay,
                enqueue.run_at,
                enqueue.priority,
                array[enqueue.label],
                array[enqueue.idempotency_key],
                array[enqueue.unique_key],
                enqueue.max_attempts,
                case when enqueue.body is not null then array[enqueue.body] end
            ) as k;
            return;
        end if;

        perform pg_current_xact_id();

        -- An old snapshot may name a segment that is gone; then 40001.
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            perform pgq._unchanged(q.queue_id)
            from pgq.queue as q
            where q.queue = enqueue.queue collate "C";
        end if;
    end if;

    -- Plain statements take less time than one that reads the queue and adds the job.
    select
        q.queue_id,
        q.partition_id,
        q.segment,
        q.delay,
        q.job_ttl,
        pgq._clock(),
        nextval('pgq.job_id'),
        false,
        enqueue.delay is null
        and enqueue.run_at is null
        and enqueue.unique_key is null
        and q.plain_enqueue,
        q.publishers
    into
        target_id,
        store_id,
        leaf,
        queue_delay,
        ttl,
        moment,
        added.job_id,
        added.duplicate,
        usual,
        roles
    from pgq.queue as q
    where q.queue = enqueue.queue collate "C";

    -- Several conditions, since each takes time in proportion to what it names.
    if (usual and roles is null) is not true then
        if roles is not null then
            caller := pgq._caller();
            if (caller collate "C" = any(roles)) is not true then
                if pgq._of_first(caller, roles) is not true then
                    if not pgq._may(roles) then
                        -- As if it were not there.
                        target_id := null;
                        usual := null;
                    end if;
                end if;
            end if;
        end if;
        if usual is not true then
            if target_id is null then
                perform pgq._check_access(null, enqueue.queue collate "C", 'publish');
                perform pgq._fail_unknown_queue(enqueue.queue collate "C");
            end if;
            if enqueue.key is not null
                and (select q.ordered from pgq.queue as q where q.queue_id = target_id)
            then
                turn_key := enqueue.key;
                free := pgq._join_order(target_id, array[turn_key]);
                added.job_id := nextval('pgq.job_id');
                moment := pgq._clock();
            end if;
            if enqueue.delay is not null or enqueue.run_at is not null then
                due_at := pgq._due_at(
                    enqueue.queue collate "C", moment, enqueue.delay, enqueue.run_at, ttl
                );
            end if;
            if enqueue.unique_key is not null then
                holder_id := pgq._take_key(
                    target_id, enqueue.unique_key collate "C", added.job_id, true
                );
                if holder_id <> added.job_id then
                    if turn_key is not null then
                        perform pgq._turns(target_id, null, free);
                    end if;
                    return query
                    select holder_id, true;
                    return;
                end if;
            end if;
            if turn_key is not null and cardinality(free) = 0 then
                turn_at := coalesce(due_at, moment + queue_delay);
                due_at := 'infinity';
            end if;
            -- The notification is heard when this transaction commits.
            perform
                case
                    when q.max_unfinished is not null
                        then pgq._check_room(q.queue_id, q.max_unfinished, 1, added.job_id)
                end,
                case
                    when q.notify
                        then pg_notify('pgq_queue', case when q.restricted then '' else q.queue end)
                end
            from pgq.queue as q
            where q.queue_id = target_id
                and (q.notify or q.max_unfinished is not null);
        end if;
    end if;

    insert into pgq.job (
        job_id,
        queue_id,
        partition_id,
        log_offset,
        expires_at,
        visible_at,
        segment,
        attempt,
        priority,
        label,
        unique_key,
        max_attempts,
        ordered_key,
        due_at
    )
    values (
        added.job_id,
        target_id,
        store_id,
        added.job_id,
        moment + ttl,
        coalesce(due_at, moment + queue_delay),
        leaf,
        0,
        coalesce(enqueue.priority, 0),
        enqueue.label,
        enqueue.unique_key,
        enqueue.max_attempts,
        turn_key,
        turn_at
    );

    if leaf > 15 then
        perform pgq._lock_leaf(leaf);
    end if;
    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    values (
        store_id,
        added.job_id,
        moment,
        leaf,
        enqueue.key,
        enqueue.headers,
        enqueue.payload,
        enqueue.body
    );

    return next added;
end
$$;

comment on function pgq.enqueue(
    text, jsonb, text, jsonb, interval, timestamptz, integer, text, text, text, integer, bytea
) is
'Adds a job to a queue, and returns its id.
Pass payload (JSON) or body (raw bytes), not both. The job may be claimed once this transaction
has committed and its time has come: after delay, at run_at, or after the delay of the queue. Jobs
of a lower priority number (0 to 9) go first, then those that are due longer. A run_at in the past
is now: to import jobs in the order of their old times, enqueue them in that order. label can be
asked for by claims; headers (a JSON object) and key travel with the job. An idempotency_key (1 to
255 characters) stands for the job that it was given with first, for the idempotency_window of the
queue, whatever becomes of that job: another call with it adds nothing, whatever its other arguments
are, and returns that job''s id as a duplicate. unique_key (1 to 255 characters): where the queue
has a job of this key, nothing is added either, and that job''s id is returned as a duplicate; how
long a job keeps others out is the queue''s unique_until. An enqueue of the same key in another
transaction is waited for. max_attempts: of this job, instead of what the queue says now or later.
In an ordered queue the jobs of one key, of at most 255 characters, are handed out one after the
other in the order of their commits, and an enqueue of a key waits for the transactions that have
enqueued one of it and are open.
Errors: MQ002 unknown queue, MQ010 the queue has as many unfinished jobs as its max_unfinished
allows, 22004 a required argument is null, or no content, 22023 bad argument, or the job would
expire before it is due, 40001 above READ COMMITTED when another transaction was first (try
again).';
