create function pgq._lock_leased(job_id bigint, lease_token uuid)
returns pgq.job
language plpgsql volatile parallel unsafe
as $$
declare
    held pgq.job;
begin
    -- A missing row may have been replaced (delete and insert) while this statement waited for its
    -- lock.
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
'Locks and returns a job whose lease token is current; nulls if the token is stale. Raises 40001
above READ COMMITTED if the snapshot is too old to tell.';
