create function pgq._snooze(job_id bigint, lease_token uuid, delay interval)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    held pgq.job;
begin
    perform pgq._check_interval('delay', delay, true);
    held := pgq._lock_leased(job_id, lease_token);

    if pgq._clock() + delay >= held.expires_at then
        raise exception 'the job would expire before it is due'
            using errcode = '22023',
                detail = format('It expires at %s.', held.expires_at),
                hint = 'Pass a shorter delay, or end the job with archive_job or reject_job.';
    end if;

    insert into pgq.job_note as n (job_id, snoozes)
    select held.job_id, 1
    where held.job_id is not null
    on conflict on constraint job_note_pkey do update set snoozes = n.snoozes + 1;
end
$$;

comment on function pgq._snooze(bigint, uuid, interval) is
'Counts that a job is released with a delay, if the lease token is current. Raises 22023 if the job
would expire before it is due again.';
