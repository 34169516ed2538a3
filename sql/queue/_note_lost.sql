create function pgq._note_lost(job_ids bigint[], uncounted integer, lost boolean)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    gone record;
begin
    for gone in
        select j.queue_id, array_agg(j.job_id) as ids
        from pgq.job as j
        where j.job_id = any(job_ids)
            and coalesce(lost, j.lease_token is not null)
            and j.last_attempt is not null
        group by j.queue_id
    loop
        perform pgq._note_attempts(gone.queue_id, gone.ids, 'lost', uncounted, null, null, null);
    end loop;
end
$$;

comment on function pgq._note_lost(bigint[], integer, boolean) is
'Notes the attempts of those of these jobs whose lease ran out after they had begun. The caller has
locked their rows.
uncounted: 1 if the next attempt has been counted already; lost: whether a lease ran out (null: if
the row has a lease token).';
