create function pgq._enqueue_keyed(
    queue text, payloads jsonb[], keys text[], headers jsonb[], delay interval, run_at timestamptz,
    priority integer, labels text[], idempotency_keys text[], unique_keys text[],
    max_attempts integer, bodies bytea[]
)
returns setof pgq.enqueue_result
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    scope bigint;
    span interval;
    most_bytes integer;
    notes pgq._key_notes;
    leaders integer[];
    added record;
    -- The jobs added, or found by their unique key, in their order.
    made pgq.enqueue_result[];
    -- The results, by ordinal of the input.
    ids bigint[];
    duplicates boolean[];
    rank integer := 0;
begin
    perform pgq._check_access(null, queue, 'publish');

    -- Assign the xid before reading the window: see _note_keys.
    perform pg_current_xact_id();

    if pgq._keeps_snapshot() then
        -- An old snapshot may show another window, or a dropped queue: raise 40001 then.
        perform pgq._unchanged(q.queue_id) from pgq.queue as q where q.queue = _enqueue_keyed.queue;
    end if;

    -- Retry if the queue was dropped and created again while this call waited.
    loop
        select q.partition_id, q.idempotency_window, q.max_message_bytes
        into scope, span, most_bytes
        from pgq.queue as q
        where q.queue = _enqueue_keyed.queue;

        if scope is null then
            perform pgq._fail_unknown_queue(queue);
        end if;

        notes := pgq._note_keys(scope, span, idempotency_keys);

        exit when exists (select from pgq.queue as q where q.partition_id = scope);
    end loop;

    leaders := notes.leaders;
    -- With unique keys only enqueue_batch knows which of them are new.
    if unique_keys is null
        and (most_bytes < 12288 or pgq._has_large(payloads, keys, headers, bodies))
    then
        perform pgq._check_size(
            null, queue,
            array(select n = leaders[n] from generate_series(1, cardinality(leaders)) as n),
            payloads, keys, headers, bodies
        );
    end if;

    select
        array_agg(g.payload) as payloads, array_agg(g.key) as keys, array_agg(g.header) as headers,
        array_agg(g.label) as labels, array_agg(g.unique_key) as unique_keys,
        array_agg(g.body) as bodies
    into added
    from (
        select
            generate_series(1, cardinality(leaders)) as ordinal, unnest(leaders) as leader,
            unnest(payloads) as payload, unnest(keys) as key,
            unnest(headers) as header, unnest(labels) as label,
            unnest(unique_keys) as unique_key, unnest(bodies) as body
        order by ordinal
    ) as g
    where g.leader = g.ordinal;

    if added.keys is not null then
        made := array(
            select e
            from pgq.enqueue_batch(
                queue, case when bodies is null then added.payloads end, added.keys, added.headers,
                delay, run_at, priority, added.labels, null, added.unique_keys, max_attempts,
                case when bodies is not null then added.bodies end
            ) as e
        );
    end if;

    for n in 1 .. cardinality(leaders) loop
        duplicates[n] := true;
        if leaders[n] = n then
            rank := rank + 1;
            ids[n] := made[rank].job_id;
            duplicates[n] := made[rank].duplicate;
        else
            -- The ordinal of an element before it, or a negative one of an earlier call's jobs.
            ids[n] := coalesce(ids[leaders[n]], notes.job_ids[-leaders[n]]);
        end if;
    end loop;

    if rank > 0 then
        perform pgq._store_keys(
            notes.segments, scope, span, array_agg(g.idempotency_key), array_agg(g.job_id), null,
            null
        )
        from (
            select
                generate_series(1, cardinality(leaders)) as ordinal, unnest(leaders) as leader,
                unnest(idempotency_keys) as idempotency_key, unnest(ids) as job_id
        ) as g
        where g.leader = g.ordinal and g.idempotency_key is not null;

        -- No lock on the queue: every call would have to take one.
        if not exists (select from pgq.queue as q where q.partition_id = scope) then
            raise exception 'queue "%" was dropped while this call was at work',
                queue using errcode = 'MQ002';
        end if;
    end if;

    return query select unnest(ids), unnest(duplicates);
end
$$;

comment on function pgq._enqueue_keyed(
    text, jsonb[], text[], jsonb[], interval, timestamptz, integer, text[], text[], text[], integer,
    bytea[]
) is
'Implements enqueue and enqueue_batch with idempotency keys: adds the new jobs, and returns the ids
of all in the order of the arrays.';
