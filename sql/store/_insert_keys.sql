create function pgq._insert_keys(
    segment integer, scope_id bigint, idempotency_keys text[], now_at timestamptz,
    ends_at timestamptz
)
returns text[]
language plpgsql volatile parallel unsafe
as $$
declare
    inserted bigint;
    kept text[];
begin
    perform pgq._lock_leaf(segment);
    -- Waits for open transactions that have inserted one of these keys. DO NOTHING, not DO UPDATE,
    -- which locks existing rows: transactions that find the same ones could deadlock.
    insert into pgq.idempotency (scope_id, ends_at, segment, idempotency_key)
    select
        scope_id,
        ends_at,
        segment,
        w.idempotency_key
    from unnest(idempotency_keys) as w (idempotency_key)
    on conflict do nothing;
    get diagnostics inserted = row_count;

    if inserted = cardinality(idempotency_keys) then
        return idempotency_keys;
    end if;

    -- Reuse the rows of expired keys.
    execute format(
        'insert into pgq.idempotency_%1$s as k (scope_id, ends_at, segment, idempotency_key)
        select $1, $2, %1$s, w.idempotency_key
        from unnest($3) as w (idempotency_key)
        cross join lateral (
            select n.ends_at
            from pgq.idempotency_%1$s as n
            where n.scope_id = $1
                and n.idempotency_key = w.idempotency_key
                and n.ends_at <= $4
            limit 1
        ) as o
        on conflict (scope_id, idempotency_key, segment) do update
        set
            ends_at = excluded.ends_at,
            job_id = null,
            partition = null,
            log_offset = null
        where k.ends_at <= $4',
        segment
    )
    using
        scope_id,
        ends_at,
        idempotency_keys,
        now_at;

    -- Visible rows without a job or partition were inserted by this call.
    execute format(
        'select array_agg(f.idempotency_key order by f.idempotency_key)
        from unnest($2) as w (idempotency_key)
        cross join lateral (
            select n.idempotency_key
            from pgq.idempotency_%1$s as n
            where n.scope_id = $1
                and n.idempotency_key = w.idempotency_key
                and n.job_id is null
                and n.partition is null
            limit 1
        ) as f',
        segment
    )
    into kept
    using scope_id, idempotency_keys;

    return coalesce(kept, '{}');
end
$$;

comment on function pgq._insert_keys(integer, bigint, text[], timestamptz, timestamptz) is
'Inserts keys into a segment, without a job or message yet, and returns them except those that
another transaction has inserted there meanwhile. The keys must be in ascending order.';
