create function pgq._note_lost(job_ids bigint[])
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    lost record;
begin
    for lost in
        select j.queue_id, array_agg(j.job_id) as ids
        from pgq.job as j
        where j.job_id = any(job_ids) and j.lease_token is not null and j.last_attempt is not null
        group by j.queue_id
    loop
        perform pgq._note_attempts(lost.ids, 'lost', 0, null, null, null);
    end loop;
end
$$;

comment on function pgq._note_lost(bigint[]) is
'Notes the attempts of those of these jobs whose lease ran out after they had begun. The caller has
locked their rows, and none of them is leased.';
