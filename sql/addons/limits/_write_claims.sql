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
        _write_claims.state.queue_id,
        _write_claims.state.seq + 1,
        first_seq,
        cardinality(_write_claims.job_ids)
        + case when _write_claims.replaces then 0 else _write_claims.state.leased end,
        _write_claims.job_ids,
        _write_claims.state.counted_xid,
        _write_claims.state.horizon,
        _write_claims.state.job_cost,
        _write_claims.state.credit,
        _write_claims.state.refilled_at
    )
    on conflict do nothing;

    -- Delete superseded rows by their exact seq: no scan over dead rows.
    if replaces then
        delete from pgq.claim_count as c
        where c.queue_id = _write_claims.state.queue_id
            and c.seq between _write_claims.state.first_seq and _write_claims.state.seq;
    end if;
end
$$;

comment on function pgq._write_claims(pgq.claim_count, bigint[], boolean) is
'Appends to the claim journal of a queue with limits; the caller holds its claim_lock.
replaces: job_ids are all jobs that may be leased; otherwise they are added to the former ones.';
