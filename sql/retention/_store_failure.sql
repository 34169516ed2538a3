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
        returning f.failed_since, f.error_code, f.error
    )

    insert into pgq.cleanup_failure (part, object, failed_since, tried_at, error_code, error)
    select
        part, object, least(min(f.failed_since), now_at), now_at,
        coalesce(_store_failure.error_code, min(f.error_code)),
        left(coalesce(_store_failure.error, min(f.error)), 2000)
    from former as f
    having count(*) > 0 or _store_failure.error is not null;
end
$$;

comment on function pgq._store_failure(text, bigint, text, text, timestamptz) is
'Stores that a part of cleanup failed for an object, or as a whole where that is null. error null:
it met a lock, and stands with its former error.';
