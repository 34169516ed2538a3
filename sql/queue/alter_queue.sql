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
    max_message_bytes integer default null,
    keep_results boolean default null,
    debounce_max interval default null,
    no_limit text[] default null,
    restricted boolean default null,
    end_dependents boolean default false
)
returns setof pgq.queue_info
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
set extra_float_digits = 1
as $$
declare
    given pgq.queue_info;
    before pgq.queue_info;
    settings pgq.queue_info;
    target_id bigint;
    store_id bigint;
begin
    given := row(
        null, lease, max_attempts, delay, job_ttl, retention, backoff, backoff_max, backoff_jitter,
        archive, notify, null, null, null, idempotency_window, unique_until, null,
        after_dead_letter, max_leased, rate_limit, rate_interval, rate_burst, max_unfinished,
        max_leased_per_key, null, max_message_bytes, keep_results, null, debounce_max
    );

    perform pgq._check_access(null, queue collate "C", 'admin');
    if exists (
        select
        from pgq.queue as q
        where q.queue = alter_queue.queue collate "C" and q.restricted <> alter_queue.restricted
    ) then
        perform pgq._restrict(null, queue collate "C", restricted, null, null, end_dependents);
    end if;
    loop
        select q.queue_id, q.partition_id
        into target_id, store_id
        from pgq.queue as q
        where q.queue = alter_queue.queue collate "C"
        for no key update;

        exit when found;
        perform pgq._check_queue(queue collate "C");
    end loop;
    select i.* into before from pgq._queue_info(queue collate "C") as i;

    settings := pgq._new_settings(given, before, no_limit collate "C");
    perform pgq._check_queue_together(settings);
    if before.retention is null and settings.retention is not null then
        perform pgq._check_nothing_kept('queue', array[store_id]);
    end if;
    perform pgq._check_storage_bounds(settings.retention, settings.idempotency_window, false, null);

    perform pgq._write_queue(
        settings, pgq._storage_class(settings.retention, null, null), target_id
    );
    perform pgq._note_former_window(
        store_id, before.idempotency_window, settings.idempotency_window
    );

    if settings.max_leased is not null and before.max_leased is null
        or settings.rate_limit is not null and before.rate_limit is null
        or settings.max_leased_per_key is not null and before.max_leased_per_key is null
    then
        insert into pgq.claim_lock as l (queue_id, counted_xid, keys_xid)
        values (
            target_id, pg_current_xact_id(),
            case when before.max_leased_per_key is null then pg_current_xact_id() end
        )
        on conflict (queue_id) do update
        set counted_xid = case
            when before.max_leased is null then excluded.counted_xid
            else l.counted_xid
        end,
            keys_xid = coalesce(excluded.keys_xid, l.keys_xid),
            keys_horizon = case when before.max_leased_per_key is not null then l.keys_horizon end;
    end if;

    if before.max_leased_per_key is not null and settings.max_leased_per_key is null then
        perform pgq._remove_key_limit(target_id);
    elsif settings.max_leased_per_key > before.max_leased_per_key then
        -- Wake-up records: the next claims unblock the jobs that may be leased now.
        insert into pgq.key_wakeup (queue_id, look_at, ordered_key, after_id, tries)
        select k.queue_id, pgq._clock(), k.limited_key, -1, 0
        from pgq.limited_key as k
        where k.queue_id = target_id and k.blocked_from is not null
        on conflict do nothing;
    end if;

    -- A limit may have been lifted that held jobs back.
    perform pgq._announce_queue(target_id);

    return query select i.* from pgq._queue_info(queue collate "C") as i;
end
$$;

comment on function pgq.alter_queue(
    text, interval, integer, interval, interval, interval, interval, interval, double precision,
    boolean, boolean, interval, text, text, integer, integer, interval, integer, integer, integer,
    integer, boolean, interval, text[], boolean, boolean
) is
'Changes settings of a queue and returns it; a setting whose argument is null keeps its value.
See create_queue for the settings. no_limit removes the limits of the named settings: max_attempts,
job_ttl, retention, max_leased, max_leased_per_key, rate_limit, max_unfinished, debounce_max. Stored
jobs keep their times; a new lease applies from the next claim. A lower max_attempts applies when a
claim finds a job with as many attempts, which becomes a dead letter, unless the job was enqueued
with its own limit. unique_until applies when a job is claimed or dies: existing dead letters keep
their keys. after_dead_letter applies when a job dies. The settings ordered and on_duplicate cannot
be changed. A queue that has ever stored anything without a retention cannot get one. A new
idempotency_window applies to keys recorded from now on; earlier keys expire by their old window. If
max_leased is set below the number of leased jobs, workers keep their jobs, and claims return
nothing until fewer are leased; the same applies to max_leased_per_key. Removing max_leased_per_key
waits for claims in progress.
A lower max_message_bytes leaves stored jobs as they are.
rate_burst follows the rate_limit unless it was set. restricted: true opens the queue only to roles
with access, see grant_access; false opens it to all roles with EXECUTE, and removes its grants.
end_dependents: as in grant_access.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 bad setting, 2BP01 what others
have set up needs the access that they lose, 40001 above READ COMMITTED when another transaction was
first (try again), 42501 no admin access, 54000 retentions or
windows that are too many: see set_storage_bounds.';
