create function pgq.enqueue_batch(
    queue text,
    payloads jsonb[] default null,
    keys text[] default null,
    headers jsonb[] default null,
    delay interval default null,
    run_at timestamptz default null,
    priority integer default 0,
    labels text[] default null,
    idempotency_keys text[] default null,
    unique_keys text[] default null,
    max_attempts integer default null,
    bodies bytea[] default null
)
returns setof pgq.enqueue_result
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
    now_at timestamptz;
    due timestamptz;
    size integer;
    added integer;
    ids bigint[];
    holders bigint[];
    free text[];
    turn_keys text[];
    turns boolean[];
begin
    size := pgq._check_batch(payloads, keys collate "C", headers, labels, bodies);
    perform pgq._check_count('priority', coalesce(priority, 0), 0, 9);
    perform pgq._check_label(l.label) from unnest(labels) as l (label);
    if num_nonnulls(idempotency_keys, unique_keys, max_attempts) > 0 then
        perform pgq._check_unique_keys(unique_keys collate "C", size);
        perform pgq._check_count('max_attempts', coalesce(max_attempts, 1), 1, 2147483647);
        perform pgq._check_idempotency_keys('idempotency_keys', idempotency_keys collate "C", size);
        if size > 0 and idempotency_keys is not null then
            return query
            select k.*
            from pgq._enqueue_keyed(
                queue collate "C", payloads, keys, headers, delay, run_at,
                priority, labels, idempotency_keys, unique_keys, max_attempts, bodies
            ) as k;
            return;
        end if;
    end if;

    -- Transaction id first, then the segment and the clock: cleanup and the floor rely on it, since
    -- they wait for all transactions that were running when a segment was sealed or a floor was
    -- proposed.
    perform pg_current_xact_id();

    select q.* into target from pgq.queue as q where q.queue = enqueue_batch.queue collate "C";

    if target.queue_id is null or not pgq._may(target.publishers) then
        perform pgq._check_access(null, queue collate "C", 'publish');
        perform pgq._fail_unknown_queue(queue collate "C");
    end if;

    if pgq._keeps_snapshot() then
        -- An old snapshot may name a segment that was emptied since: raise 40001.
        perform pgq._unchanged(target.queue_id);
    end if;

    -- Lock the keys before taking ids: ids of a key must be in commit order.
    if target.ordered then
        free := pgq._join_order(target.queue_id, keys);
    end if;

    now_at := pgq._clock();
    due := case
        when delay is null and run_at is null then now_at + target.delay
        else pgq._due_at(target.queue, now_at, delay, run_at, target.job_ttl)
    end;

    if size = 0 then
        return;
    end if;

    added := size;
    ids := array(select nextval('pgq.job_id') from generate_series(1, size));

    if unique_keys is not null then
        holders := pgq._take_keys(target.queue_id, unique_keys collate "C", ids, true);

        added := cardinality(array(select unnest(ids) intersect select unnest(holders)));
    end if;

    if target.max_message_bytes < 12288 or pgq._has_large(payloads, keys, headers, bodies) then
        perform pgq._note_size(
            target.segment, target.partition_id,
            pgq._check_size(
                null, target.queue, array(select unnest(ids) = unnest(holders)), payloads,
                keys, headers, bodies
            )
        );
    end if;
    if target.max_unfinished is not null and added > 0 then
        perform pgq._check_room(target.queue_id, target.max_unfinished, added, ids[size]);
    end if;
    if target.ordered then
        -- A duplicate takes no turn.
        turn_keys := array(
            select case when (h.holder <> h.id) is not true then h.key end
            from unnest(ids, holders, keys) as h (id, holder, key)
        );
        turns := pgq._turns(target.queue_id, turn_keys, free);
    end if;

    perform pgq._lock_leaf(target.segment);
    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    select target.partition_id, b.id, now_at, target.segment, b.key, b.header, b.payload, b.body
    from (
        select
            unnest(ids) as id, unnest(holders) as holder, unnest(keys) as key,
            unnest(headers) as header, unnest(payloads) as payload, unnest(bodies) as body
    ) as b
    where b.holder is null or b.holder = b.id;

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
    select
        b.id,
        target.queue_id,
        target.partition_id,
        b.id,
        now_at + target.job_ttl,
        case when b.waits then 'infinity' else due end,
        target.segment,
        0,
        coalesce(priority, 0),
        b.label,
        b.unique_key,
        max_attempts,
        b.turn_key,
        case when b.waits then due end
    from (
        select
            unnest(ids) as id, unnest(holders) as holder, unnest(labels) as label,
            unnest(unique_keys) as unique_key, unnest(turn_keys) as turn_key, unnest(turns) as waits
    ) as b
    where b.holder is null or b.holder = b.id;

    if added < size then
        perform pgq._merge_duplicates(
            target.queue_id, ids, holders, payloads, headers, delay, run_at, bodies
        );
    end if;

    return query
    select unnest(coalesce(holders, ids)), unnest(coalesce(holders, ids)) <> unnest(ids);

    if target.notify then
        perform pgq._announce_jobs(ids);
    end if;
end
$$;

comment on function pgq.enqueue_batch(
    text, jsonb[], text[], jsonb[], interval, timestamptz, integer, text[], text[], text[], integer,
    bytea[]
) is
'Adds jobs to a queue, all or none, and returns their ids, in the order of the array.
Pass payloads (JSON) or bodies (raw bytes), not both; keys, headers, labels, idempotency_keys and
unique_keys are optional and of the same length; delay, run_at, priority and max_attempts apply to
all jobs. A run_at in the past counts as now, so sort imported jobs by their old times. A key may be
null, which means none. An element that repeats an idempotency key, or the unique key of an
unfinished job (see enqueue), even of a job earlier in the array, is not added, and its row has the
id of the job that it repeats. An empty array adds nothing. In an ordered queue jobs of one key
follow each other in the order of the array.
Errors: MQ002 unknown queue, MQ010 the queue has not room for all of them by its max_unfinished,
22004 a required argument is null, no content, or a null in it, 22023 bad argument, arrays of other
lengths, a job that is too large, or the jobs would expire before they are due, 40001 above READ
COMMITTED when another transaction was first (try again).';
