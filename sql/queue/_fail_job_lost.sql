create function pgq._fail_job_lost(job_ids bigint[])
returns void
language plpgsql immutable parallel safe
as $$
begin
    raise exception 'jobs are not leased to this worker any more'
        using errcode = 'MQ006',
            detail = format('Lost: %s.', array_to_string(job_ids, ', ')),
            hint = 'Nothing was finished or claimed. Finish the others with pgq.ack_batch.';
end
$$;

comment on function pgq._fail_job_lost(bigint[]) is
'Raises MQ006 with the ids of the jobs that are lost.';
