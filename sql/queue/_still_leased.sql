create function pgq._still_leased(job_ids bigint[], lease_token uuid)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    next_id bigint;
begin
    if pgq._keeps_snapshot() then
        -- The snapshot is no proof. Locking a row that was changed since raises 40001, and so does
        -- inserting an id that the snapshot does not show. Ids that the sequence has not given out
        -- yet are skipped: the insert would collide with their future job.
        perform from pgq.job as j where j.job_id = any(job_ids) order by j.job_id for update;

        for next_id in
            select distinct r.job_id
            from unnest(job_ids) as r (job_id)
            where r.job_id <= pg_sequence_last_value('pgq.job_id')
            order by r.job_id
        loop
            insert into pgq.job (
                job_id,
                queue_id,
                partition_id,
                log_offset,
                visible_at,
                segment,
                attempt,
                priority
            )
            select next_id, 0, 0, 0, 'infinity', 0, 0, 0
            where not exists (select from pgq.job as j where j.job_id = next_id)
            on conflict do nothing;

            delete from pgq.job as j where j.job_id = next_id and j.queue_id = 0;
        end loop;
        return false;
    end if;

    return exists (
        select
        from pgq.job as j
        where j.job_id = any(job_ids) and j.lease_token = _still_leased.lease_token
    );
end
$$;

comment on function pgq._still_leased(bigint[], uuid) is
'Returns whether any of these jobs, not found under this token by an earlier statement, is held
under it after all. Raises 40001 above READ COMMITTED if the snapshot is too old to tell.';
