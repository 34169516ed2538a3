create function pgq._find_keys(segment integer, scope_id bigint, idempotency_keys text[])
returns setof pgq._noted_key
language plpgsql stable parallel safe
as $$
begin
    -- One lookup per key: a plan for the whole array might read all keys of the scope.
    -- for the first 48 leaves: _find_keys.segment
    return query
    select f.idempotency_key, f.ends_at, f.job_id, f.partition, f.log_offset
    from unnest({idempotency_keys}) as w (idempotency_key)
    cross join lateral (
        select k.*
        from pgq.idempotency_{leaf} as k
        where k.scope_id = {_find_keys.scope_id} and k.idempotency_key = w.idempotency_key
        limit 1
    ) as f;
    -- end of the leaf
end
$$;

comment on function pgq._find_keys(integer, bigint, text[]) is
'The rows of idempotency keys in a segment, including expired ones.';
