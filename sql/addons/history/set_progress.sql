create function pgq.set_progress(job_id bigint, lease_token uuid, progress jsonb default null)
returns boolean
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
    held pgq.job;
    size bigint := pgq._message_bytes(progress, null, null, null);
begin
    perform pgq._check_lease(job_id, lease_token);
    if size > 16384 then
        raise exception 'argument "progress" must have at most 16384 bytes'
            using errcode = '22023',
                detail = format('Given: %s.', size),
                hint = 'Store what is large elsewhere, and pass where it is.';
    end if;

    held := pgq._lock_leased(job_id, lease_token);

    insert into pgq.job_note as n (job_id, progress, progress_at)
    select held.job_id, progress, pgq._clock()
    where held.job_id is not null
    on conflict on constraint job_note_pkey do update
    set progress = excluded.progress, progress_at = excluded.progress_at;

    return held.job_id is not null;
end
$$;

comment on function pgq.set_progress(bigint, uuid, jsonb) is
'Stores the progress of a leased job; false when the caller does not hold it any more.
get_job shows it. progress: any JSON of up to 16384 bytes, for example {"done": 40, "of": 100};
null: none. It replaces the former progress, is kept when the job is retried, and is removed some
time after the job has ended. Call it no more often than heartbeat, since each call writes a row.
Errors: 22004 a required argument is null, 22023 progress is too large, 40001 above READ COMMITTED
when another transaction was first (try again).';
