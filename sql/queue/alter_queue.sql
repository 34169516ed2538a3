create function pgq.alter_queue(
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
    after_dead_letter text default null,
    max_leased integer default null,
    rate_limit integer default null,
    rate_interval interval default null,
    rate_burst integer default null,
    max_unfinished integer default null,
    max_leased_per_key integer default null,
    no_limit text[] default null,
    restricted boolean default null,
    end_dependents boolean default false
)
returns setof pgq.queue_info
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    settings pgq.queue_info;
    class pgq.storage_class;
    target_id bigint;
    store_id bigint;
    retention_before interval;
    window_before interval;
    limit_before integer;
    leased_before integer;
    per_key_before integer;
begin
    perform pgq._check_access(null, alter_queue.queue collate "C", 'admin');
    if exists (
        select
        from pgq.queue as q
        where q.queue = alter_queue.queue collate "C"
            and q.restricted <> alter_queue.restricted
    ) then
        perform pgq._restrict(
            null,
            alter_queue.queue collate "C",
            alter_queue.restricted,
            null,
            null,
            alter_queue.end_dependents
        );
    end if;
    loop
        perform
        from pgq.queue as q
        where q.queue = alter_queue.queue collate "C"
        for no key update;

        exit when found;
        perform pgq._check_queue(alter_queue.queue collate "C");
    end loop;
    perform pgq._check_no_limit(
        alter_queue.no_limit collate "C",
        jsonb_build_object(
            'job_ttl', alter_queue.job_ttl,
            'max_attempts', alter_queue.max_attempts,
            'max_leased', alter_queue.max_leased,
            'max_leased_per_key', alter_queue.max_leased_per_key,
            'max_unfinished', alter_queue.max_unfinished,
            'rate_limit', alter_queue.rate_limit,
            'retention', alter_queue.retention
        )
    );

    select i.*
    into settings
    from pgq._queue_info(alter_queue.queue collate "C") as i;

    retention_before := settings.retention;
    window_before := settings.idempotency_window;
    leased_before := settings.max_leased;
    per_key_before := settings.max_leased_per_key;
    limit_before := settings.rate_limit;
    settings.lease := coalesce(alter_queue.lease, settings.lease);
    settings.max_attempts := coalesce(alter_queue.max_attempts, settings.max_attempts);
    settings.delay := coalesce(alter_queue.delay, settings.delay);
    settings.job_ttl := coalesce(alter_queue.job_ttl, settings.job_ttl);
    settings.retention := coalesce(alter_queue.retention, settings.retention);
    settings.backoff := coalesce(alter_queue.backoff, settings.backoff);
    settings.backoff_max := coalesce(alter_queue.backoff_max, settings.backoff_max);
    settings.backoff_jitter := coalesce(alter_queue.backoff_jitter, settings.backoff_jitter);
    settings.archive := coalesce(alter_queue.archive, settings.archive);
    settings.notify := coalesce(alter_queue.notify, settings.notify);
    settings.idempotency_window := coalesce(
        alter_queue.idempotency_window, settings.idempotency_window
    );
    settings.unique_until := coalesce(alter_queue.unique_until, settings.unique_until);
    settings.after_dead_letter := coalesce(
        alter_queue.after_dead_letter, settings.after_dead_letter
    );
    settings.max_leased := coalesce(alter_queue.max_leased, settings.max_leased);
    settings.max_unfinished := coalesce(alter_queue.max_unfinished, settings.max_unfinished);
    settings.max_leased_per_key := coalesce(
        alter_queue.max_leased_per_key, settings.max_leased_per_key
    );
    if 'max_leased' = any(alter_queue.no_limit collate "C") then
        settings.max_leased := null;
    end if;
    if 'max_leased_per_key' = any(alter_queue.no_limit collate "C") then
        settings.max_leased_per_key := null;
    end if;
    if 'max_unfinished' = any(alter_queue.no_limit collate "C") then
        settings.max_unfinished := null;
    end if;
    settings.rate_limit := coalesce(alter_queue.rate_limit, settings.rate_limit);
    if 'rate_limit' = any(alter_queue.no_limit collate "C") then
        settings.rate_limit := null;
    end if;
    if settings.rate_limit is null then
        settings.rate_interval := alter_queue.rate_interval;
        settings.rate_burst := alter_queue.rate_burst;
    else
        settings.rate_interval := coalesce(
            alter_queue.rate_interval, settings.rate_interval, '1 second'
        );
        -- It goes along with the limit unless it was set apart.
        settings.rate_burst := coalesce(
            alter_queue.rate_burst,
            nullif(settings.rate_burst, limit_before),
            settings.rate_limit
        );
    end if;
    if 'max_attempts' = any(alter_queue.no_limit collate "C") then
        settings.max_attempts := null;
    end if;
    if 'job_ttl' = any(alter_queue.no_limit collate "C") then
        settings.job_ttl := null;
    end if;
    if 'retention' = any(alter_queue.no_limit collate "C") then
        settings.retention := null;
    end if;
    perform pgq._check_queue_settings(settings);
    perform pgq._check_queue_together(settings);
    if retention_before is null and settings.retention is not null then
        perform pgq._check_nothing_kept('queue', array[q.partition_id])
        from pgq.queue as q
        where q.queue = alter_queue.queue collate "C";
    end if;

    perform pgq._check_storage_bounds(
        settings.retention, settings.idempotency_window, false, null
    );
    class := pgq._storage_class(settings.retention, null, null);
    update pgq.queue as q
    set
        storage_class_id = class.storage_class_id,
        segment = class.segment,
        lease = settings.lease,
        max_attempts = settings.max_attempts,
        delay = settings.delay,
        job_ttl = settings.job_ttl,
        retention = settings.retention,
        backoff = settings.backoff,
        backoff_max = settings.backoff_max,
        backoff_jitter = settings.backoff_jitter,
        archive = settings.archive,
        notify = settings.notify,
        idempotency_window = settings.idempotency_window,
        unique_until = settings.unique_until,
        after_dead_letter = settings.after_dead_letter,
        max_leased = settings.max_leased,
        rate_limit = settings.rate_limit,
        rate_interval = settings.rate_interval,
        rate_burst = settings.rate_burst,
        max_unfinished = settings.max_unfinished,
        max_leased_per_key = settings.max_leased_per_key,
        updated_at = pgq._clock()
    where q.queue = alter_queue.queue collate "C"
    returning q.queue_id, q.partition_id
    into target_id, store_id;

    perform pgq._note_former_window(store_id, window_before, settings.idempotency_window);

    if settings.max_leased is not null and leased_before is null
        or settings.rate_limit is not null and limit_before is null
        or settings.max_leased_per_key is not null and per_key_before is null
    then
        insert into pgq.claim_lock as l (queue_id, counted_xid, keys_xid)
        values (
            target_id,
            pg_current_xact_id(),
            case when per_key_before is null then pg_current_xact_id() end
        )
        on conflict (queue_id) do update
        set counted_xid = case
            when leased_before is null then excluded.counted_xid
            else l.counted_xid
        end,
            keys_xid = case
                when per_key_before is null then excluded.keys_xid
                else l.keys_xid
            end,
            keys_horizon = case when per_key_before is not null then l.keys_horizon end;
    end if;

    if per_key_before is not null and settings.max_leased_per_key is null then
        perform pgq._lift_key_limit(target_id);
    elsif settings.max_leased_per_key > per_key_before then
        -- The next claims bring up what may be leased now.
        insert into pgq.ordered_note (queue_id, look_at, ordered_key, after_id, tries)
        select k.queue_id, pgq._clock(), k.limited_key, -1, 0
        from pgq.limited_key as k
        where k.queue_id = target_id
            and k.parked_from is not null
        on conflict do nothing;
    end if;

    return query
    select i.*
    from pgq._queue_info(alter_queue.queue collate "C") as i;
end
$$;

comment on function pgq.alter_queue(
    text,
    interval,
    integer,
    interval,
    interval,
    interval,
    interval,
    interval,
    double precision,
    boolean,
    boolean,
    interval,
    text,
    text,
    integer,
    integer,
    interval,
    integer,
    integer,
    integer,
    text[],
    boolean,
    boolean
) is
'Changes settings of a queue and returns it; what is null stays as it is.
See create_queue for the settings. no_limit lifts settings: max_attempts, job_ttl, retention,
max_leased, max_leased_per_key, rate_limit, max_unfinished. Jobs that are stored keep their times; a
new lease counts from the next claim. So does a lowered max_attempts: a claim that meets a job which
has had as many makes a dead letter of it, unless the job was enqueued with a limit of its own.
unique_until is asked when a job is claimed or dies: a dead letter that has kept its key keeps it;
after_dead_letter when a job dies. Whether a queue is ordered cannot be changed. A queue that has
stored anything without a retention does not get one. A new idempotency_window counts for keys that
are noted from now on; those from before end by theirs. A max_leased below what is leased takes no
job away: claims get nothing until it is less; max_leased_per_key is lowered in the same way, and
lifting it waits for claims that are under way. rate_burst follows the rate_limit unless it was
given. restricted: true opens it only to roles with access, see grant_access; false opens it to all
that have EXECUTE, and removes its grants. end_dependents: as in grant_access.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 bad setting, 2BP01 what others
have set up needs the access that they lose, 40001 above READ COMMITTED when another transaction was
first (try again), 42501 no admin access, 54000 retentions or
windows that are too many: see set_storage_bounds.';
