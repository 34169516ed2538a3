create function pgq._write_claims(state pgq.claim_count, job_ids bigint[], replaces boolean)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    first_seq bigint := case when replaces then state.seq + 1 else state.first_seq end;
begin
    -- Raises 40001 above READ COMMITTED if another claim was first.
    insert into pgq.claim_count (
        queue_id,
        seq,
        first_seq,
        leased,
        job_ids,
        counted_xid,
        horizon,
        job_cost,
        credit,
        refilled_at
    )
    values (
        state.queue_id,
        state.seq + 1,
        first_seq,
        cardinality(job_ids)
        + case when replaces then 0 else state.leased end,
        job_ids,
        state.counted_xid,
        state.horizon,
        state.job_cost,
        state.credit,
        state.refilled_at
    )
    on conflict do nothing;

    -- Delete superseded rows by their exact seq: no scan over dead rows.
    if replaces then
        delete from pgq.claim_count as c
        where c.queue_id = state.queue_id and c.seq between state.first_seq and state.seq;
    end if;
end
$$;

comment on function pgq._write_claims(pgq.claim_count, bigint[], boolean) is
'Appends to the claim journal of a queue with limits; the caller holds its claim_lock.
replaces: job_ids are all jobs that may be leased; otherwise they are added to the former ones.';
