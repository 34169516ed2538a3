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
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
    target_id bigint;
    store_id bigint;
    leaf integer;
    queue_delay interval;
    ttl interval;
    fast_path boolean;
    roles text[];
    is_large boolean;
    added pgq.enqueue_result;
    admitted pgq._admitted_job;
begin
    -- Transaction id first, then the segment and the clock: cleanup and the floor rely on it, since
    -- they wait for all transactions that were running when a segment was sealed or a floor was
    -- proposed. Few conditions, since each of them takes time.
    if (payload is null) = (body is null)
        or priority <> 0
        or num_nonnulls(headers, label, idempotency_key, unique_key, max_attempts) > 0
        or pgq._is_large(payload, key, headers, body)
        or current_setting('transaction_isolation') <> 'read committed'
        or pg_current_xact_id() is null
    then
        perform pgq._check_job(
            payload, headers, priority, label collate "C", unique_key, max_attempts, body
        );
        if idempotency_key is not null then
            perform pgq._check_idempotency_keys(
                'idempotency_key', array[idempotency_key collate "C"], 1
            );
            return query
            select k.*
            from pgq._enqueue_keyed(
                queue collate "C", case when payload is not null then array[payload] end,
                array[key], array[headers], delay, run_at,
                priority, array[label], array[idempotency_key],
                case when unique_key is not null then array[unique_key] end, max_attempts,
                case when body is not null then array[body] end
            ) as k;
            return;
        end if;

        is_large := pgq._is_large(payload, key, headers, body);
        perform pg_current_xact_id();

        -- An old snapshot may name a segment that was emptied since: raise 40001.
        if pgq._keeps_snapshot() then
            perform pgq._unchanged(q.queue_id)
            from pgq.queue as q
            where q.queue = enqueue.queue collate "C";
        end if;
    end if;

    -- Separate statements take less time than one that reads the queue and adds the job.
    select
        q.queue_id,
        q.partition_id,
        q.segment,
        pgq._clock(),
        nextval('pgq.job_id'),
        false,
        q.delay,
        q.job_ttl,
        enqueue.delay is null
        and run_at is null
        and unique_key is null
        and q.has_fast_enqueue,
        q.publishers
    into
        target_id,
        store_id,
        leaf,
        admitted.enqueued_at,
        added.job_id,
        added.duplicate,
        queue_delay,
        ttl,
        fast_path,
        roles
    from pgq.queue as q
    where q.queue = enqueue.queue collate "C";

    if (fast_path and roles is null and is_large is not true) is not true then
        if target_id is null or (roles is not null and not pgq._may(roles)) then
            perform pgq._check_access(null, queue collate "C", 'publish');
            perform pgq._fail_unknown_queue(queue collate "C");
        end if;
        if fast_path is not true then
            admitted := pgq._admit_job(
                target_id, added.job_id, key collate "C", unique_key, delay, run_at
            );
            added.job_id := admitted.job_id;
            if admitted.is_duplicate then
                perform pgq._merge_duplicate(
                    target_id, added.job_id, payload, headers, delay, run_at, body
                );
                added.duplicate := true;
                return next added;
                return;
            end if;
        end if;
        if is_large or admitted.has_small_limit then
            perform pgq._note_size(
                leaf, store_id,
                pgq._check_size(
                    null, queue collate "C", null, array[payload], array[key], array[headers],
                    array[body]
                )
            );
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
        coalesce(admitted.expires_at, admitted.enqueued_at + ttl),
        coalesce(admitted.visible_at, admitted.enqueued_at + queue_delay),
        leaf,
        0,
        coalesce(priority, 0),
        label,
        unique_key,
        max_attempts,
        admitted.ordered_key,
        admitted.due_at
    );

    if leaf > 15 then
        perform pgq._lock_leaf(leaf);
    end if;
    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    values (store_id, added.job_id, admitted.enqueued_at, leaf, key, headers, payload, body);

    return next added;
end
$$;

comment on function pgq.enqueue(
    text, jsonb, text, jsonb, interval, timestamptz, integer, text, text, text, integer, bytea
) is
'Adds a job to a queue, and returns its id.
Pass payload (JSON) or body (raw bytes), not both. The job may be claimed once this transaction has
committed and the job is due: after delay, at run_at, or after the delay of the queue. Jobs of a
lower priority number (0 to 9; by default 0) go first, then those that have been due longer. A
run_at in the past counts as now: to import jobs in the order of their old times, enqueue them in
that order. Claims can ask for a label; headers (a JSON object) and key are stored with the job. An
idempotency_key (1 to 255 characters) identifies the job that it was first given with, for the
idempotency_window of the queue, even after that job has ended: another call with this key adds
nothing, whatever its other arguments are, and returns that job''s id as a duplicate. unique_key (1
to 255 characters): while the queue has a job of this key, as long as its unique_until says, the
call adds nothing, and returns that job''s id as a duplicate. It waits for an open transaction that
enqueues the same key. The content may have as many bytes as the queue''s max_message_bytes, key and
headers together 256 KiB. max_attempts: the limit of this job, which replaces the setting of the
queue, even if that changes. In an ordered queue the jobs of one key, of at most 255 characters, are
handed out one after the other in the order of their commits, and an enqueue of a key waits for open
transactions that have enqueued a job of this key.
Errors: MQ002 unknown queue, MQ010 the queue has as many unfinished jobs as its max_unfinished
allows, 22004 a required argument is null, or no content, 22023 bad argument, too large, or the job
would expire before it is due, 40001 above READ COMMITTED when another transaction was first (try
again).';
