create function pgq.create_queue(
    queue text,
    lease interval default null,
    max_attempts integer default null,
    delay interval default null,
    job_ttl interval default null,
    retention interval default null,
    backoff interval default null,
    backoff_max interval default null,
    backoff_jitter double precision default null,
    archive boolean default null,
    notify boolean default null,
    idempotency_window interval default null,
    unique_until text default null,
    ordered boolean default null,
    after_dead_letter text default null,
    max_leased integer default null,
    rate_limit integer default null,
    rate_interval interval default null,
    rate_burst integer default null,
    max_unfinished integer default null,
    max_leased_per_key integer default null,
    max_message_bytes integer default null,
    keep_results boolean default null,
    on_duplicate text default null,
    debounce_max interval default null,
    no_limit text[] default null,
    restricted boolean default null
)
returns setof pgq.queue_info
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
set extra_float_digits = 1
as $$
declare
    given pgq.queue_info;
    settings pgq.queue_info;
    existing pgq.queue_info;
    new_id bigint;
begin
    given := row(
        queue, lease, max_attempts, delay, job_ttl, retention, backoff, backoff_max, backoff_jitter,
        archive, notify, null, null, null, idempotency_window, unique_until, ordered,
        after_dead_letter, max_leased, rate_limit, rate_interval, rate_burst, max_unfinished,
        max_leased_per_key, restricted, max_message_bytes, keep_results, on_duplicate, debounce_max
    );

    perform pgq._check_name('queue', queue collate "C");
    settings := pgq._new_settings(
        given, pgq._standard_settings(given, pgq._queue_settings()), no_limit collate "C"
    );

    -- Repeat if another transaction creates a queue of this name in between.
    while new_id is null loop
        -- An existing queue is read without a lock.
        select i.* into existing from pgq._queue_info(queue collate "C") as i;

        if existing.queue is not null then
            perform pgq._check_taken(null, queue collate "C");
            -- An old snapshot may show a queue that was dropped since; locking it raises 40001.
            if pgq._keeps_snapshot() then
                perform
                from pgq.queue as q
                where q.queue = create_queue.queue collate "C"
                for key share;
            end if;

            perform pgq._check_settings_equal(
                'queue', queue collate "C", to_jsonb(given), no_limit, to_jsonb(existing),
                pgq._queue_settings()
            );
            return next existing;
            return;
        end if;

        -- Before the class of storage, as alter_queue does: else the two could deadlock.
        if restricted then
            perform pgq._lock_access(null, null, false);
        end if;
        perform pgq._check_queue_together(settings);
        perform pgq._check_storage_bounds(
            settings.retention, settings.idempotency_window, false, null
        );
        new_id := pgq._write_queue(settings, pgq._storage_class(settings.retention, null, null));
    end loop;

    insert into pgq.queue_floor_lock (queue_id) values (new_id);

    insert into pgq.queue_floor (
        queue_id,
        seq,
        epoch,
        floor_times,
        floor_ids,
        recorded_at,
        safe_at,
        candidate_at,
        candidate_xid,
        wakeup_floor
    )
    values (
        new_id,
        1,
        1,
        array_fill('-infinity'::timestamptz, array[10]),
        array_fill(0::bigint, array[10]),
        '-infinity',
        '-infinity',
        '-infinity',
        '0',
        case
            when settings.ordered or settings.max_leased_per_key is not null
                then '-infinity'::timestamptz
        end
    );

    if num_nonnulls(settings.max_leased, settings.rate_limit, settings.max_leased_per_key) > 0 then
        insert into pgq.claim_lock (queue_id, counted_xid) values (new_id, pg_current_xact_id());
    end if;

    if restricted then
        perform pgq._restrict(null, queue collate "C", true, null, null, false);
    end if;

    return query select i.* from pgq._queue_info(queue collate "C") as i;
end
$$;

comment on function pgq.create_queue(
    text, interval, integer, interval, interval, interval, interval, interval, double precision,
    boolean, boolean, interval, text, boolean, text, integer, integer, interval, integer, integer,
    integer, integer, boolean, text, interval, text[], boolean
) is
'Creates a queue and returns it; an existing one is returned if it has the settings that are given.
lease: how long a worker has a job before another one may get it; by default 30 seconds.
max_attempts: attempts before a job becomes a dead letter; by default 5. delay: from enqueue to the
first attempt; by default none. job_ttl: from enqueue until an unfinished job expires; by default 14
days. retention: how long dead letters are kept, counted from when they died, and finished jobs,
counted from when they were enqueued; by default 14 days. backoff: the delay before the first retry,
by default 1 second; each further retry doubles it up to backoff_max, by default 1 hour, and up to
the share backoff_jitter (0 to 1, by default 0.1) is added at random. archive: a job that ack
finishes, or that expires or is cancelled, is recorded among the archived jobs; by default true.
keep_results: get_result knows the jobs that have ended, for the retention, counted from their end;
by default false. notify: an enqueue notifies the channel pgq_queue with the queue''s name (a
restricted one without it); by default false. idempotency_window: how long an idempotency key
identifies the job that it was first given with, from 1 second to 366 days; by default 1 day; queues
and topics with the same window share their storage. unique_until: how long a job prevents other
jobs of its unique_key; finished (the default): until it is finished, cancelled, expired, purged or
dead; claimed: only while it waits, not while a worker has it; removed: a dead letter prevents them
too, until it is redriven and finished, purged, or removed by retention. on_duplicate, with
unique_until claimed, cannot be changed later: what an enqueue of a unique_key does to the waiting
job that has it; keep (the default): nothing; replace: the job gets the new payload and headers, and
keeps its id, due time and attempts; postpone: the same, and the job is due after the new delay, but
at most debounce_max (by default no limit) after it was first enqueued. A leased job does not
change: a new job is added, so a worker always gets the newest content. If the older job returns to
the queue (nack, release_job, lost lease) while the newer one waits, it ends as replaced; if the
newer one is already claimed, the older one is retried like any other job, and if both return, both
are retried. ordered: jobs of one key are handed out one at a time, in the order in which their
enqueues were committed, whatever their priorities and delays; jobs without a key are never blocked;
by default false; it cannot be changed later. The next job of a key is blocked until the one before
is finished, cancelled, expired, purged or dead. after_dead_letter, of an ordered queue: by default
continue; stop: the jobs of the key are blocked until the dead letter is redriven, which then comes
first, or purged, or removed by retention. max_leased (1 to 10000): claims return nothing while this
many jobs are leased; by default no limit. max_leased_per_key (1 to 10000): at most this many jobs
of one key are leased at a time; jobs without a key are not limited, and keys with the same first
255 characters count as one; not for an ordered queue; by default no limit. rate_limit (1 to
1000000): claims get at most this many jobs per rate_interval (by default 1 second), and after a
pause up to rate_burst (1 to 1000000; by default the rate_limit) at once; by default no limit.
Claims of a queue with max_leased, max_leased_per_key or rate_limit wait for each other until the
transaction ends, so claim in short transactions. max_unfinished: enqueue fails with MQ010 while the
queue has this many unfinished jobs; by default no limit. max_message_bytes (1024 to 268435456; by
default 1048576): an enqueue with larger content is refused, see enqueue. no_limit: names of
settings without a limit: max_attempts, job_ttl, retention, max_leased, max_leased_per_key,
rate_limit, max_unfinished, debounce_max. restricted: only the caller and roles with access by
grant_access may use the queue; by default false. Settings that are not given are not compared, so
an application can call this at each start.
Errors: MQ005 the queue exists with other settings than those given, 22004 a required argument is
null, 22023 bad name or setting, 40001 above READ COMMITTED when another transaction was first (try
again), 54000 retentions or windows that are too many: see set_storage_bounds.';
