create function pgq._lock_leased(job_id bigint, lease_token uuid)
returns pgq.job
language plpgsql volatile parallel unsafe
as $$
declare
    held pgq.job;
begin
    -- What is not found may have been replaced by a new row while this statement waited.
    loop
        select j.*
        into held
        from pgq.job as j
        where j.job_id = _lock_leased.job_id and j.lease_token = _lock_leased.lease_token
        for update;

        exit when found or not pgq._still_leased(array[job_id], lease_token);
    end loop;

    return held;
end
$$;

comment on function pgq._lock_leased(bigint, uuid) is
'Locks a job whose lease token is current, and returns it; nulls where the token is stale. Above
READ COMMITTED it raises 40001 where the snapshot is too old to tell.';
