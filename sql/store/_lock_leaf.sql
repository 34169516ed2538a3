create function pgq._lock_leaf(leaf integer)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- PostgreSQL routes an insert by the partitions that it knew when it last took a new lock. A
    -- transaction that already holds every lock would miss a leaf attached since (23514); locking
    -- the leaf by name refreshes them. Leaves 0 to 15 exist since the installation.
    if leaf > 15 then
        execute format('lock table pgq.message_%s in access share mode', leaf);
    end if;
end
$$;

comment on function pgq._lock_leaf(integer) is
'Lets an insert through message, job_archive, job_event or idempotency find a leaf that was attached
since this transaction last took a new lock.';
