create function pgq._admit_job(
    queue_id bigint, job_id bigint, key text, unique_key text, delay interval, run_at timestamptz
)
returns pgq._admitted_job
language plpgsql volatile parallel unsafe
as $$
declare
    settings pgq.queue;
    holder_id bigint;
    free text[];
    admitted pgq._admitted_job;
begin
    select q.* into settings from pgq.queue as q where q.queue_id = _admit_job.queue_id;

    -- Lock the key before drawing the id: jobs of a key run in the order of their ids.
    admitted.job_id := job_id;
    if settings.ordered and key is not null then
        admitted.ordered_key := key;
        free := pgq._join_order(queue_id, array[key]);
        admitted.job_id := nextval('pgq.job_id');
    end if;

    admitted.has_small_limit := settings.max_message_bytes < 12288;
    admitted.enqueued_at := pgq._clock();
    admitted.expires_at := admitted.enqueued_at + settings.job_ttl;
    admitted.visible_at := admitted.enqueued_at + settings.delay;
    if delay is not null or run_at is not null then
        admitted.visible_at := pgq._due_at(
            settings.queue, admitted.enqueued_at, delay, run_at, settings.job_ttl
        );
    end if;

    if unique_key is not null then
        holder_id := pgq._take_key(queue_id, unique_key, admitted.job_id, true);
        if holder_id <> admitted.job_id then
            if admitted.ordered_key is not null then
                perform pgq._turns(queue_id, null, free);
            end if;
            admitted.job_id := holder_id;
            admitted.is_duplicate := true;
            return admitted;
        end if;
    end if;

    if admitted.ordered_key is not null and cardinality(free) = 0 then
        admitted.due_at := admitted.visible_at;
        admitted.visible_at := 'infinity';
    end if;
    if settings.max_unfinished is not null then
        perform pgq._check_room(queue_id, settings.max_unfinished, 1, admitted.job_id);
    end if;
    if settings.notify then
        perform pg_notify(
            'pgq_queue', case when settings.restricted then '' else settings.queue end
        );
    end if;
    return admitted;
end
$$;

comment on function pgq._admit_job(bigint, bigint, text, text, interval, timestamptz) is
'Prepares one job that has a delay or a unique key, or whose queue is ordered, has a max_unfinished,
notifies, or takes less than the 12 KiB up to which enqueue does not look at the size.
is_duplicate: another job holds the unique key; job_id is the id of that job.';
