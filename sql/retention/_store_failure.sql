create function pgq._store_failure(
    part text, object bigint, error_code text, error text, now_at timestamptz
)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- SKIP LOCKED: a concurrent cleanup notes the same failure.
    with former as (
        delete from pgq.cleanup_failure as f
        where f.cleanup_failure_id = any(array(
            select g.cleanup_failure_id
            from pgq.cleanup_failure as g
            where g.part = _store_failure.part
                and g.object is not distinct from _store_failure.object
            for update skip locked
        ))
        returning f.failed_since
    )

    insert into pgq.cleanup_failure (part, object, failed_since, tried_at, error_code, error)
    select part, object, least(min(f.failed_since), now_at), now_at, error_code, left(error, 2000)
    from former as f;
end
$$;

comment on function pgq._store_failure(text, bigint, text, text, timestamptz) is
'Stores that a part of cleanup failed for an object, or as a whole where that is null.';
