create function pgq.get_job(job_id bigint)
returns setof pgq.job_info
language plpgsql stable parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
    held pgq.job;
    dead pgq.dead_job;
    info pgq.job_info;
    message pgq._stored_message;
    now_at timestamptz := pgq._clock();
begin
    if job_id is null then
        raise exception 'argument "job_id" must not be null' using errcode = '22004';
    end if;

    select j.* into held from pgq.job as j where j.job_id = get_job.job_id;

    if found then
        info.expires_at := held.expires_at;
        info.state := pgq._job_state(
            held.lease_token, held.visible_at, held.expires_at, held.due_at, now_at
        );
        if info.state = 'leased' then
            info.leased_until := held.visible_at;
            held.attempt := held.attempt + (held.last_attempt is null)::integer;
        else
            info.due_at := coalesce(held.due_at, held.visible_at);
        end if;
    else
        select d.* into dead from pgq.dead_job as d where d.job_id = get_job.job_id;
        held := row(
            dead.job_id, dead.queue_id, dead.partition_id, dead.log_offset, null, null,
            dead.segment, dead.attempt, dead.priority, null, null, dead.label, dead.last_error,
            dead.unique_key, dead.max_attempts, null, null
        );
        info.died_at := dead.died_at;
        info.state := 'dead';
    end if;

    select q.queue, coalesce(held.max_attempts, q.max_attempts)
    into info.queue, info.max_attempts
    from pgq.queue as q
    where q.queue_id = held.queue_id and (q.consumers is null or pgq._may(q.consumers));

    -- Report jobs of a dropped queue, or of one hidden from the caller, as missing.
    if info.queue is null then
        return;
    end if;

    message := pgq._job_message(held.job_id, held.partition_id, held.segment, held.log_offset);

    info.job_id := held.job_id;
    info.priority := held.priority;
    info.attempt := held.attempt;
    info.label := held.label;
    info.unique_key := held.unique_key;
    info.last_error := held.last_error;
    info.enqueued_at := message.published_at;
    info.key := message.key;
    info.headers := message.headers;
    info.payload := message.payload;
    info.body := message.body;

    select n.snoozes, n.progress, n.progress_at
    into info.snoozes, info.progress, info.progress_at
    from pgq.job_note as n
    where n.job_id = held.job_id;
    info.snoozes := coalesce(info.snoozes, 0);
    return next info;
end
$$;

comment on function pgq.get_job(bigint) is
'Returns an unfinished job or a dead letter, with its content; no row when there is none.
state: ready, leased, delayed, waiting (blocked by another job of its key), expired or dead, the
words of queue_stats. For a finished job it returns no row: the view archived_jobs has it, but a
query by job_id scans the whole archive, since an index would slow down every ack.
Errors: 22004 a required argument is null, 40001 when retention removes what is being read (try
again).';
