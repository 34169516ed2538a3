create function pgq._lock_leaf(leaf integer)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- PostgreSQL routes an insert by the partitions it knew when it last took a new lock. A
    -- transaction that has every lock already would not find a leaf that was attached since, and
    -- fail with 23514. To lock the leaf by name makes it look. The first 16 are always known.
    if leaf > 15 then
        execute format('lock table pgq.message_%s in access share mode', leaf);
    end if;
end
$$;

comment on function pgq._lock_leaf(integer) is
'Makes an insert through message, job_archive or idempotency find a leaf that cleanup has added.';
