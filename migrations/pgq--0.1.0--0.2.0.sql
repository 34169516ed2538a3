\echo Upgrading pgq to 0.2.0 \set ON_ERROR_STOP on
-- generated from sql/ and migrations/changes/0.2.0.sql by python/tools/upgrade.py: edit there, not here

-- Stop before anything is changed where this is not the way to go. The setting lasts as long as the
-- transaction: outside of one, the next statement does not find it.
set local pgq.upgrade = '0.2.0';

do $guard$
declare
    owner_name text := (
        select pg_get_userbyid(n.nspowner)
        from pg_namespace as n
        where n.nspname = 'pgq'
    );
begin
    if current_setting('pgq.upgrade', true) is distinct from '0.2.0' then
        raise exception 'an upgrade has to be one transaction'
            using errcode = '25P01',
                hint = 'Run it by psql -1.';
    end if;
    if pgq.version() <> '0.1.0' then
        raise exception 'this leads from pgq 0.1.0 to 0.2.0, and here is %', pgq.version()
            using errcode = '55000';
    end if;
    -- While an extension is updated, it has the new version already.
    if exists (select from pg_extension where extname = 'pgq' and extversion <> '0.2.0') then
        raise exception 'pgq is installed as an extension in this database'
            using errcode = '55000',
                hint = 'Run alter extension pgq update instead.';
    end if;
    -- What another role made would be another role's, and would run with its rights.
    if owner_name <> current_user then
        raise exception 'only the owner of pgq, %, can upgrade it', owner_name
            using errcode = '42501',
                hint = format('Run set role %I before.', owner_name);
    end if;
end
$guard$;

-- ==== migrations/changes/0.2.0.sql

-- Effects of jobs, and schedules.
create type pgq.effect_state as (
    state text,
    result jsonb,
    attempt integer,
    begun_at timestamptz
);

create type pgq.schedule_info as (
    schedule text,
    topic text,
    queue text,
    payload jsonb,
    key text,
    headers jsonb,
    cron text,
    every interval,
    time_zone text,
    missed text,
    starts_at timestamptz,
    partition integer,
    priority integer,
    label text,
    body bytea,
    paused boolean,
    next_at timestamptz,
    last_at timestamptz,
    last_error text,
    created_at timestamptz,
    updated_at timestamptz
);

create type pgq.schedule_run as (
    schedule text,
    tick_at timestamptz,
    job_id bigint,
    partition integer,
    log_offset bigint,
    error text
);

create type pgq._cron_times as (
    minutes integer array,
    hours integer array,
    days integer array,
    months integer array,
    weekdays integer array,
    either_day boolean,
    real_time boolean
);

create table pgq.effect (
    job_id bigint not null,
    effect text collate "C" not null,
    lease_token uuid not null,
    attempt integer not null,
    begun_at timestamptz not null,
    finished_at timestamptz,
    result jsonb,
    primary key (job_id, effect)
);

create sequence pgq.effect_walk as bigint minvalue 0;

create table pgq.schedule (
    schedule text collate "C" primary key,
    topic text collate "C",
    queue text collate "C",
    payload jsonb,
    key text,
    headers jsonb,
    cron text,
    every interval,
    time_zone text,
    missed text not null,
    starts_at timestamptz not null,
    partition integer,
    priority integer,
    label text,
    body bytea,
    paused boolean not null default false,
    next_at timestamptz not null,
    due_at timestamptz not null,
    last_at timestamptz,
    last_error text,
    created_at timestamptz not null,
    updated_at timestamptz not null
);

create index schedule_due on pgq.schedule (due_at) where not paused;

-- ==== sql/

comment on schema pgq is
'Messaging inside PostgreSQL: topics with consumer groups, queues of leased jobs, schedules.
Every function takes named arguments; errors carry an SQLSTATE of PostgreSQL or of class MQ.';

comment on type pgq.effect_state is 'What has become of an effect of a job.';

comment on column pgq.effect_state.state is
'begun: run it now; finished: it has happened; interrupted: it was begun before, and nobody knows
whether it has happened.';

comment on column pgq.effect_state.result is 'What finish_effect was given; null: nothing.';

comment on column pgq.effect_state.attempt is 'Which attempt of the job began it.';

comment on column pgq.effect_state.begun_at is 'When that was.';

comment on type pgq.schedule_info is 'A schedule and its settings.';

comment on column pgq.schedule_info.schedule is 'Its name.';

comment on column pgq.schedule_info.queue is 'The queue that gets a job; null: it has a topic.';

comment on column pgq.schedule_info.topic is 'The topic that gets a message; null: it has a queue.';

comment on column pgq.schedule_info.payload is 'What is written, as JSON; null when it has a body.';

comment on column pgq.schedule_info.key is 'The key that is written with it; null: none.';

comment on column pgq.schedule_info.headers is
'The headers that are written beside scheduled_at; null: none.';

comment on column pgq.schedule_info.cron is 'When: a cron expression; null: it has an interval.';

comment on column pgq.schedule_info.every is
'How often, counted from starts_at; null: it has a cron expression.';

comment on column pgq.schedule_info.time_zone is
'The time zone of the cron expression; null: it has an interval.';

comment on column pgq.schedule_info.missed is
'What becomes of ticks that nobody was there to write: skip, one or all.';

comment on column pgq.schedule_info.starts_at is 'It has no tick before.';

comment on column pgq.schedule_info.partition is
'The partition of the topic; null: as publish chooses.';

comment on column pgq.schedule_info.priority is
'The priority of its jobs, 0 (first) to 9 (last); null: it has a topic.';

comment on column pgq.schedule_info.label is 'The label of its jobs; null: none.';

comment on column pgq.schedule_info.body is
'What is written, as raw bytes; null when it has a payload.';

comment on column pgq.schedule_info.paused is 'Whether run_schedules leaves it out for now.';

comment on column pgq.schedule_info.next_at is 'The next tick, or the first one that was missed.';

comment on column pgq.schedule_info.last_at is 'The last tick that was written; null: none yet.';

comment on column pgq.schedule_info.last_error is
'Why the last try to write a tick failed; null: it did not.';

comment on column pgq.schedule_info.created_at is 'When it was made.';

comment on column pgq.schedule_info.updated_at is 'When its settings last changed.';

comment on type pgq.schedule_run is 'A tick that run_schedules wrote, or could not write.';

comment on column pgq.schedule_run.schedule is 'Whose tick it is.';

comment on column pgq.schedule_run.tick_at is
'The time of the tick, which is in the header scheduled_at.';

comment on column pgq.schedule_run.job_id is 'The job that was enqueued; null: none was.';

comment on column pgq.schedule_run.partition is
'The partition that it was published to; null: it was not.';

comment on column pgq.schedule_run.log_offset is 'Its offset there; null: it was not published.';

comment on column pgq.schedule_run.error is 'Why nothing was written; null: it was.';

comment on type pgq._cron_times is
'What a cron expression says: numbers in ascending order, Sunday is 0.
either_day: one of day and weekday is enough. real_time: hours that come twice count twice.';

comment on table pgq.effect is
'Effects of jobs that are to happen once: begun, and what has become of them.';

comment on column pgq.effect.effect is 'Which of the effects of its job.';

comment on column pgq.effect.lease_token is
'The token of whoever began it last, or has said that it happened.';

comment on column pgq.effect.attempt is 'Which attempt of the job began it last.';

comment on column pgq.effect.begun_at is 'When that was.';

comment on column pgq.effect.finished_at is
'When it was noted that it has happened; null: nobody has said so.';

comment on column pgq.effect.result is 'What it has come to; null: nothing, or not known.';

comment on sequence pgq.effect_walk is
'Up to which job cleanup has looked for effects of jobs that have ended; it goes round and round.';

comment on table pgq.schedule is
'What is enqueued or published again and again, and when it is next.
The target is kept by its name: one that is dropped and made again gets its ticks again.';

comment on column pgq.schedule.schedule is 'Its name.';

comment on column pgq.schedule.queue is 'The queue that gets a job; null: it has a topic.';

comment on column pgq.schedule.topic is 'The topic that gets a message; null: it has a queue.';

comment on column pgq.schedule.cron is 'A cron expression; null: it has an interval.';

comment on column pgq.schedule.every is 'An interval; null: it has a cron expression.';

comment on column pgq.schedule.time_zone is 'That of the cron expression.';

comment on column pgq.schedule.missed is 'skip, one or all.';

comment on column pgq.schedule.starts_at is
'It has no tick before, and an interval is counted from here.';

comment on column pgq.schedule.next_at is
'The first tick that is neither written nor left out. It only goes ahead, whatever the clock does,
so no tick is written twice.';

comment on column pgq.schedule.due_at is
'When run_schedules looks at it: at next_at; later when there was an error, or more than one call
may write.';

comment on column pgq.schedule.last_at is 'The last tick that was written; null: none yet.';

comment on column pgq.schedule.last_error is
'Why the last try to write a tick failed; null: it did not.';

comment on column pgq.schedule.created_at is 'When it was made.';

comment on column pgq.schedule.updated_at is 'When its settings last changed.';

create or replace function pgq.version()
returns text
language sql
immutable
parallel safe
as $$
select '0.2.0'
$$;

create or replace function pgq._check_settings_equal(
    kind text,
    name text,
    given jsonb,
    no_limit text[],
    existing jsonb
)
returns void
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    lacking text := case _check_settings_equal.kind when 'schedule' then 'none' else 'no limit' end;
    differences text;
begin
    -- As texts, as which JSON writes them: a month and 30 days are two settings. But a client may
    -- know no hour above 23, as Python does, so a day and 12 hours are the same as 36 hours.
    select string_agg(
        format(
            '%s: given %s, has %s',
            s.name,
            coalesce(left(s.given, 100), lacking),
            coalesce(left(s.existing, 100), lacking)
        ),
        '; '
        order by s.name
    )
    into differences
    from (
        select
            g.key as name,
            g.value as given,
            _check_settings_equal.existing ->> g.key as existing
        from jsonb_each_text(jsonb_strip_nulls(_check_settings_equal.given)) as g
        union all
        select
            n.name,
            null as given,
            _check_settings_equal.existing ->> n.name as existing
        from unnest(_check_settings_equal.no_limit) as n (name)
    ) as s
    where
        case
            when s.name in (
                'backoff', 'backoff_max', 'delay', 'every', 'job_ttl', 'lease', 'retention'
            )
                then
                    justify_hours(s.given::interval)::text
                    is distinct from justify_hours(s.existing::interval)::text
            else s.given is distinct from s.existing
        end;

    if differences is not null then
        raise exception '% "%" already exists with other settings',
            _check_settings_equal.kind, _check_settings_equal.name
            using errcode = 'MQ005',
                detail = format('%s.', differences),
                hint = format(
                    'Leave a setting out to take it as it is, or change it with pgq.alter_%s.',
                    case _check_settings_equal.kind
                        when 'consumer group' then 'group'
                        else _check_settings_equal.kind
                    end
                );
    end if;
end
$$;

create function pgq._check_effect(effect text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_effect.effect is null then
        raise exception 'argument "effect" must not be null'
            using errcode = '22004';
    end if;
    if length(_check_effect.effect) not between 1 and 255 then
        raise exception 'argument "effect" must have 1 to 255 characters'
            using errcode = '22023';
    end if;
end
$$;

revoke all on function pgq._check_effect from public;

comment on function pgq._check_effect(text) is
'Refuses an effect without a name (22004), or with one that is empty or long (22023).';

create function pgq._flush_commit()
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end
$$;

revoke all on function pgq._flush_commit from public;

comment on function pgq._flush_commit() is
'Lets the commit of this transaction wait for the disk where the session has it wait for nothing.';

create function pgq._lock_leased(job_id bigint, lease_token uuid)
returns pgq.job
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    held pgq.job;
begin
    -- What is not found may have been replaced by a new row while this statement waited.
    loop
        select j.*
        into held
        from pgq.job as j
        where j.job_id = _lock_leased.job_id
            and j.lease_token = _lock_leased.lease_token
        for update;

        exit when found
            or not pgq._still_leased(array[_lock_leased.job_id], _lock_leased.lease_token);
    end loop;

    return held;
end
$$;

revoke all on function pgq._lock_leased from public;

comment on function pgq._lock_leased(bigint, uuid) is
'Locks a job whose lease token is current, and returns it; nulls where the token is stale. Above
READ COMMITTED it raises 40001 where the snapshot is too old to tell.';

create function pgq._lock_effect(job_id bigint, lease_token uuid, effect text)
returns pgq.effect
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    held pgq.job;
    known pgq.effect;
begin
    -- Who began it may say what became of it, whoever has the job by now.
    select e.*
    into known
    from pgq.effect as e
    where e.job_id = _lock_effect.job_id
        and e.effect = _lock_effect.effect
        and e.lease_token = _lock_effect.lease_token
    for update;
    if found then
        return known;
    end if;

    held := pgq._lock_leased(_lock_effect.job_id, _lock_effect.lease_token);
    if held.job_id is null then
        return known;
    end if;

    select e.*
    into known
    from pgq.effect as e
    where e.job_id = _lock_effect.job_id
        and e.effect = _lock_effect.effect
    for update;

    if not found
        and current_setting('transaction_isolation') in ('repeatable read', 'serializable')
    then
        -- One that was begun after the snapshot cannot be inserted: that raises 40001.
        insert into pgq.effect (job_id, effect, lease_token, attempt, begun_at)
        values (
            _lock_effect.job_id,
            _lock_effect.effect,
            _lock_effect.lease_token,
            held.attempt,
            pgq._clock()
        )
        on conflict do nothing;

        delete from pgq.effect as e
        where e.job_id = _lock_effect.job_id
            and e.effect = _lock_effect.effect;
    end if;

    return known;
end
$$;

revoke all on function pgq._lock_effect from public;

comment on function pgq._lock_effect(bigint, uuid, text) is
'Locks what is noted of an effect and returns it, to who began it and to who holds the job; nulls to
others, and where nothing is noted.';

create function pgq.begin_effect(
    job_id bigint,
    lease_token uuid,
    effect text,
    at_least_once boolean default null
)
returns setof pgq.effect_state
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    held pgq.job;
    known pgq.effect;
    outcome text := 'begun';
begin
    perform pgq._check_lease(begin_effect.job_id, begin_effect.lease_token);
    perform pgq._check_effect(begin_effect.effect collate "C");

    -- Locked, so that nobody claims or ends the job before this transaction has ended.
    held := pgq._lock_leased(begin_effect.job_id, begin_effect.lease_token);
    if held.job_id is null or held.visible_at <= pgq._clock() then
        raise exception 'job % is not leased to this worker any more', begin_effect.job_id
            using errcode = 'MQ006',
                detail = case
                    when held.job_id is null
                        then 'It was given to another worker, or has ended.'
                    else format('The lease ended at %s.', held.visible_at)
                end,
                hint = 'Nothing was begun. Leave the job, and claim the next one.';
    end if;

    loop
        insert into pgq.effect as e (job_id, effect, lease_token, attempt, begun_at)
        values (
            begin_effect.job_id,
            begin_effect.effect,
            begin_effect.lease_token,
            held.attempt,
            pgq._clock()
        )
        on conflict do nothing
        returning e.*
        into known;
        exit when found;

        select e.*
        into known
        from pgq.effect as e
        where e.job_id = begin_effect.job_id
            and e.effect = begin_effect.effect collate "C"
        for update;
        -- Else it was forgotten in between.
        continue when not found;

        if known.finished_at is not null then
            outcome := 'finished';
        elsif coalesce(begin_effect.at_least_once, false) then
            update pgq.effect as e
            set
                lease_token = begin_effect.lease_token,
                attempt = held.attempt,
                begun_at = pgq._clock()
            where e.job_id = begin_effect.job_id
                and e.effect = begin_effect.effect collate "C"
            returning e.*
            into known;
        else
            outcome := 'interrupted';
        end if;
        exit;
    end loop;

    if outcome = 'begun' then
        perform pgq._flush_commit();
    end if;

    return query
    select outcome, known.result, known.attempt, known.begun_at;
end
$$;

revoke all on function pgq.begin_effect from public;

comment on function pgq.begin_effect(bigint, uuid, text, boolean) is
'Notes that an effect is about to run, or tells what became of it; MQ006 when the job is lost.
An effect is what a job does outside of this database: a mail, a payment. effect: its name, of 1 to
255 characters, one for each effect of a job. Call this, commit, run the effect only if the state is
begun, and call finish_effect. Later attempts of the job then get the state finished, and the
result. Where an attempt ended in between, or is still at it, they get interrupted: it may have
happened or not. Whoever has found out says so by finish_effect or forget_effect. So it happens at
most once. at_least_once => true: an interrupted effect is begun again, so it happens at least once,
and more than once only after such an end or a lost lease. The commit is flushed to disk, even if
the session turned synchronous_commit off. The note stays as long as the job, as a dead letter too.
Errors: MQ006 the lease has run out or was never the caller''s, or the job is finished (nothing was
begun; do not run the effect), 22004 a required argument is null, 22023 bad effect, 40001 above READ
COMMITTED when another transaction was first (try again).';

create function pgq.finish_effect(
    job_id bigint,
    lease_token uuid,
    effect text,
    result jsonb default null
)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    known pgq.effect;
begin
    perform pgq._check_lease(finish_effect.job_id, finish_effect.lease_token);
    perform pgq._check_effect(finish_effect.effect collate "C");

    known := pgq._lock_effect(
        finish_effect.job_id,
        finish_effect.lease_token,
        finish_effect.effect collate "C"
    );
    if known.finished_at is not null then
        return known.lease_token = finish_effect.lease_token;
    end if;

    update pgq.effect as e
    set
        lease_token = finish_effect.lease_token,
        finished_at = pgq._clock(),
        result = finish_effect.result
    where e.job_id = known.job_id
        and e.effect = known.effect;
    if not found then
        return false;
    end if;

    perform pgq._flush_commit();
    return true;
end
$$;

revoke all on function pgq.finish_effect from public;

comment on function pgq.finish_effect(bigint, uuid, text, jsonb) is
'Notes that an effect of a job has happened; false when the caller does not hold it any more.
The worker that began it holds it, even after its lease has run out, and so does whoever has the job
now: one that got the state interrupted, say, and has found out that it did happen. result: what
later attempts of the job get; null: nothing. It stays as it is: called again with the same token
this is true and changes nothing. False: it was never begun, or was forgotten, or was begun again or
finished by another worker. The commit is flushed to disk, even if the session turned
synchronous_commit off.
Errors: 22004 a required argument is null, 22023 bad effect, 40001 above READ COMMITTED when another
transaction was first (try again).';

create function pgq.forget_effect(job_id bigint, lease_token uuid, effect text)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    known pgq.effect;
begin
    perform pgq._check_lease(forget_effect.job_id, forget_effect.lease_token);
    perform pgq._check_effect(forget_effect.effect collate "C");

    known := pgq._lock_effect(
        forget_effect.job_id,
        forget_effect.lease_token,
        forget_effect.effect collate "C"
    );

    delete from pgq.effect as e
    where e.job_id = known.job_id
        and e.effect = known.effect
        and e.finished_at is null;
    return found;
end
$$;

revoke all on function pgq.forget_effect from public;

comment on function pgq.forget_effect(bigint, uuid, text) is
'Takes back that an effect was begun; false when the caller does not hold it any more.
The next begin_effect begins it as if it were the first. Only whoever knows that it did not happen,
and that nobody is running it, should call this: the worker that began it, when it failed before it
did anything; whoever has the job now; or an operator, with the lease_token that the view effects
shows. False: it is finished, or nothing is noted, or another worker has begun it since.
Errors: 22004 a required argument is null, 22023 bad effect, 40001 above READ COMMITTED when another
transaction was first (try again).';

create function pgq._clean_effects()
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    -- One call looks at so many jobs, and removes so many effects.
    most constant integer := 10000;
    place bigint;
    looked_at bigint[];
    ended bigint[];
    removed bigint;
begin
    if not exists (select from pgq.effect) then
        return;
    end if;

    select w.last_value
    into place
    from pgq.effect_walk as w;

    -- The jobs that have effects are found one after the other, and each of them is looked for by
    -- its id. A job that is seen in neither table has ended for ever: a move is one transaction.
    with recursive having_effects as (
        (
            select e.job_id
            from pgq.effect as e
            where e.job_id > place
            order by e.job_id
            limit 1
        )
        union all
        select (
            select e.job_id
            from pgq.effect as e
            where e.job_id > h.job_id
            order by e.job_id
            limit 1
        )
        from having_effects as h
        where h.job_id is not null
    ),

    walk as materialized (
        select h.job_id
        from having_effects as h
        where h.job_id is not null
        limit most
    )

    select
        array_agg(k.job_id order by k.job_id),
        array_agg(k.job_id) filter (where alive.job_id is null and dead.job_id is null)
    into looked_at, ended
    from walk as k
    left join lateral (
        select j.job_id
        from pgq.job as j
        where j.job_id = k.job_id
        limit 1
    ) as alive on true
    left join lateral (
        select d.job_id
        from pgq.dead_job as d
        where d.job_id = k.job_id
        limit 1
    ) as dead on true;

    with doomed as materialized (
        select e.job_id, e.effect
        from pgq.effect as e
        where e.job_id = any(ended)
        limit most
        for update skip locked
    )

    delete from pgq.effect as e
    using doomed as d
    where e.job_id = d.job_id
        and e.effect = d.effect;
    get diagnostics removed = row_count;

    if removed > 0 then
        return next row('effects removed', 'jobs', removed)::pgq.cleanup_action;
    end if;

    -- The next call goes on behind these jobs, or begins again behind the last one. Only where more
    -- is to be removed than one call may does it look at them again.
    if removed < most then
        perform setval(
            'pgq.effect_walk',
            case when cardinality(looked_at) = most then looked_at[most] else 0 end
        );
    end if;
    if removed = most or (removed > 0 and cardinality(looked_at) = most) then
        return next row('more', 'effects', 1)::pgq.cleanup_action;
    end if;
end
$$;

revoke all on function pgq._clean_effects from public;

comment on function pgq._clean_effects() is
'The part of cleanup that removes the notes about effects of jobs that have ended. It waits for
nobody.';

create function pgq._fail_unknown_schedule(schedule text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _fail_unknown_schedule.schedule is null then
        raise exception 'argument "schedule" must not be null'
            using errcode = '22004';
    end if;
    raise exception 'unknown schedule "%"', _fail_unknown_schedule.schedule
        using errcode = 'MQ009',
            hint = 'Create it with pgq.create_schedule, or see pgq.list_schedules for those that '
                'exist.';
end
$$;

revoke all on function pgq._fail_unknown_schedule from public;

comment on function pgq._fail_unknown_schedule(text) is
'Raises MQ009, or 22004 when no name was given.';

create function pgq._fail_cron(detail text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    raise exception 'argument "cron" must be a cron expression'
        using errcode = '22023',
            detail = _fail_cron.detail,
            hint = 'Five fields: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or '
                'JAN-DEC), day of week (0-7 or SUN-SAT). Each is *, a number, a range like 1-5, '
                'either of the last with a step like */10 or 8-18/2, or several of these with '
                'commas between. Or @hourly, @daily, @midnight, @weekly, @monthly, @yearly, '
                '@annually.';
end
$$;

revoke all on function pgq._fail_cron from public;

comment on function pgq._fail_cron(text) is
'Refuses a cron expression (22023); the detail says what is wrong with it.';

create function pgq._check_time_zone(time_zone text)
returns void
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
begin
    -- PostgreSQL takes abbreviations and rules such as EST or X5 as well, which know no changes of
    -- the clocks, or look like a name that was meant.
    if _check_time_zone.time_zone <> 'UTC' and not exists (
        select
        from pg_catalog.pg_timezone_names as z
        where z.name = _check_time_zone.time_zone
    ) then
        raise exception 'argument "time_zone" must name a time zone of the server'
            using errcode = '22023',
                detail = format('Given: "%s".', left(_check_time_zone.time_zone, 100)),
                hint = 'See pg_timezone_names for those that there are, such as Europe/Berlin.';
    end if;
end
$$;

revoke all on function pgq._check_time_zone from public;

comment on function pgq._check_time_zone(text) is
'Refuses a time zone that the server does not know by this name (22023).';

create function pgq._cron_field(
    field text,
    given text,
    lowest integer,
    highest integer,
    names text[]
)
returns integer[]
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    item text;
    part text[];
    first_value integer;
    last_value integer;
    step integer;
    found_values integer[] := '{}';
begin
    foreach item in array string_to_array(_cron_field.given, ',') loop
        -- A star, or a first value and perhaps a last one; then perhaps a step.
        part := regexp_match(
            lower(item collate "C"),
            '^(?:\*|([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?)(?:/([0-9]{1,2}))?$'
        );
        if part[1] is null then
            first_value := _cron_field.lowest;
            last_value := _cron_field.highest;
        else
            first_value := case
                when part[1] ~ '[0-9]' then part[1]::integer
                else _cron_field.lowest - 1 + array_position(_cron_field.names, part[1])
            end;
            last_value := case
                when part[2] is null then first_value
                when part[2] ~ '[0-9]' then part[2]::integer
                else _cron_field.lowest - 1 + array_position(_cron_field.names, part[2])
            end;
            -- A week ends with a Sunday too: FRI-SUN.
            if _cron_field.highest = 7 and last_value = 0 and first_value > 0 then
                last_value := 7;
            end if;
        end if;
        step := coalesce(part[3]::integer, 1);

        if (
            part is not null
            and first_value >= _cron_field.lowest
            and last_value between first_value and _cron_field.highest
            and step between 1 and _cron_field.highest
            and (part[3] is null or part[1] is null or part[2] is not null)
        ) is not true then
            perform pgq._fail_cron(
                format('Field "%s": "%s".', _cron_field.field, left(item, 100))
            );
        end if;

        found_values := found_values || array(
            select g.value
            from generate_series(first_value, last_value, step) as g (value)
        );
    end loop;

    return array(
        select distinct case when _cron_field.highest = 7 then f.value % 7 else f.value end as value
        from unnest(found_values) as f (value)
        order by value
    );
end
$$;

revoke all on function pgq._cron_field from public;

comment on function pgq._cron_field(text, text, integer, integer, text[]) is
'The numbers that a field of a cron expression stands for; refuses what is none (22023).
names: those of the numbers from the lowest on. Where 7 is the highest it is the same as 0.';

create function pgq._cron_times(cron text)
returns pgq._cron_times
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    fields text[] := regexp_split_to_array(
        btrim(
            case lower(btrim(_cron_times.cron) collate "C")
                when '@hourly' then '0 * * * *'
                when '@daily' then '0 0 * * *'
                when '@midnight' then '0 0 * * *'
                when '@weekly' then '0 0 * * 0'
                when '@monthly' then '0 0 1 * *'
                when '@yearly' then '0 0 1 1 *'
                when '@annually' then '0 0 1 1 *'
                else _cron_times.cron
            end,
            E' \t'
        ),
        '[ \t]+'
    );
    times pgq._cron_times;
begin
    if length(_cron_times.cron) > 1000 then
        perform pgq._fail_cron(
            format('It has %s characters, more than 1000.', length(_cron_times.cron))
        );
    end if;
    if cardinality(fields) <> 5 then
        perform pgq._fail_cron(
            format(
                'Given: "%s", which has %s field(s).',
                left(_cron_times.cron, 100),
                cardinality(fields)
            )
        );
    end if;

    times.minutes := pgq._cron_field('minute', fields[1], 0, 59, '{}');
    times.hours := pgq._cron_field('hour', fields[2], 0, 23, '{}');
    times.days := pgq._cron_field('day of month', fields[3], 1, 31, '{}');
    times.months := pgq._cron_field(
        'month', fields[4], 1, 12, '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}'
    );
    times.weekdays := pgq._cron_field(
        'day of week', fields[5], 0, 7, '{sun,mon,tue,wed,thu,fri,sat}'
    );
    times.either_day := fields[3] !~ '^\*' and fields[5] !~ '^\*';
    times.real_time := fields[1] ~ '^\*' or fields[2] ~ '^\*';

    -- Every day of a year falls on every weekday at some time, so only dates that no year has are
    -- left: the first of the days is too late for all of the months.
    if not times.either_day and times.days[1] > (
        select max(case when m.month = 2 then 29 when m.month in (4, 6, 9, 11) then 30 else 31 end)
        from unnest(times.months) as m (month)
    ) then
        raise exception 'argument "cron" must name a time that comes'
            using errcode = '22023',
                detail = format(
                    'Field "day of month": "%s"; field "month": "%s".', fields[3], fields[4]
                );
    end if;
    return times;
end
$$;

revoke all on function pgq._cron_times from public;

comment on function pgq._cron_times(text) is
'What a cron expression says; refuses what is none, and what never comes (22023).';

create function pgq._next_minute(times pgq._cron_times, after timestamp)
returns timestamp
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    day date := _next_minute.after::date;
    hour integer := date_part('hour', _next_minute.after);
    minute integer := date_part('minute', _next_minute.after);
    later integer;
    on_day boolean;
    on_weekday boolean;
begin
    loop
        if not date_part('month', day) = any(_next_minute.times.months) then
            day := date_trunc('month', day::timestamp) + interval '1 month';
            hour := null;
            continue;
        end if;

        on_day := date_part('day', day) = any(_next_minute.times.days);
        on_weekday := date_part('dow', day) = any(_next_minute.times.weekdays);
        if (on_day and on_weekday)
            or (_next_minute.times.either_day and (on_day or on_weekday))
        then
            -- A day that has only just begun has all its times before it; of the first one, look
            -- for a later minute of this hour, then for a later hour.
            if hour is null then
                return day
                    + make_time(_next_minute.times.hours[1], _next_minute.times.minutes[1], 0);
            end if;
            if hour = any(_next_minute.times.hours) then
                later := _next_minute.times.minutes[
                    width_bucket(minute, _next_minute.times.minutes) + 1
                ];
                if later is not null then
                    return day + make_time(hour, later, 0);
                end if;
            end if;
            later := _next_minute.times.hours[width_bucket(hour, _next_minute.times.hours) + 1];
            if later is not null then
                return day + make_time(later, _next_minute.times.minutes[1], 0);
            end if;
        end if;
        day := day + 1;
        hour := null;
    end loop;
end
$$;

revoke all on function pgq._next_minute from public;

comment on function pgq._next_minute(pgq._cron_times, timestamp) is
'The first local time after another one that a cron expression names.
A date that falls on a certain weekday comes after 40 years at most: February 29, beside a year like
2100. So the search is over after some hundred months and days.';

create function pgq._moment_of(
    local_at timestamp,
    time_zone text,
    real_time boolean,
    after timestamptz
)
returns timestamptz
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    -- Of a time that comes twice the second one; of one that is skipped, as much after the gap as
    -- the time lies behind its beginning.
    moment timestamptz := _moment_of.local_at at time zone _moment_of.time_zone;
    day_before timestamptz := moment - interval '24 hours';
    earlier timestamptz;
begin
    if (moment at time zone _moment_of.time_zone) <> _moment_of.local_at then
        if _moment_of.real_time then
            return null;
        end if;
        return (
            select min(g.moment)
            from generate_series(
                moment - ((moment at time zone _moment_of.time_zone) - _moment_of.local_at),
                moment,
                interval '1 minute'
            ) as g (moment)
            where (g.moment at time zone _moment_of.time_zone) > _moment_of.local_at
        );
    end if;

    -- The same local time by the clock of the day before.
    earlier := (
        _moment_of.local_at
        - (
            (day_before at time zone _moment_of.time_zone)
            - (day_before at time zone 'UTC')
        )
    ) at time zone 'UTC';
    if earlier < moment
        and (earlier at time zone _moment_of.time_zone) = _moment_of.local_at
        and (earlier > _moment_of.after or not _moment_of.real_time)
    then
        return earlier;
    end if;
    return moment;
end
$$;

revoke all on function pgq._moment_of from public;

comment on function pgq._moment_of(timestamp, text, boolean, timestamptz) is
'When a local time comes in a time zone whose clocks are put forward and back.
One that is skipped comes at the first moment after the gap, but in real time never (null). One that
comes twice is the first of the two, but in real time the first that is not over.';

create function pgq._cron_tick(times pgq._cron_times, time_zone text, after timestamptz)
returns timestamptz
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    local_after timestamp := _cron_tick.after at time zone _cron_tick.time_zone;
    -- The same local time, or the second one where it comes twice.
    again timestamptz := local_after at time zone _cron_tick.time_zone;
    local_at timestamp;
    moment timestamptz;
    repeated timestamptz;
begin
    -- Where an hour is about to come a second time, local times that were before come after.
    if _cron_tick.times.real_time and again > _cron_tick.after then
        local_at := local_after - (again - _cron_tick.after);
        loop
            local_at := pgq._next_minute(_cron_tick.times, local_at);
            exit when local_at > local_after;
            repeated := pgq._moment_of(local_at, _cron_tick.time_zone, true, _cron_tick.after);
            exit when repeated > _cron_tick.after;
            repeated := null;
        end loop;
    end if;

    local_at := local_after;
    loop
        local_at := pgq._next_minute(_cron_tick.times, local_at);
        moment := pgq._moment_of(
            local_at, _cron_tick.time_zone, _cron_tick.times.real_time, _cron_tick.after
        );
        exit when moment > _cron_tick.after;
    end loop;
    return least(moment, repeated);
end
$$;

revoke all on function pgq._cron_tick from public;

comment on function pgq._cron_tick(pgq._cron_times, text, timestamptz) is
'The first moment after another one that a cron expression names in a time zone.';

create function pgq._next_tick(
    times pgq._cron_times,
    every interval,
    time_zone text,
    starts_at timestamptz,
    after timestamptz
)
returns timestamptz
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    step numeric;
    passed numeric;
begin
    if _next_tick.every is null then
        return pgq._cron_tick(
            _next_tick.times,
            _next_tick.time_zone,
            greatest(_next_tick.after, _next_tick.starts_at - interval '1 microsecond')
        );
    end if;

    -- In microseconds, as which 24 hours are a day, whatever the clocks do in between. An interval
    -- is multiplied as a double: whole days and the rest are exact, centuries of microseconds not.
    step := extract(epoch from _next_tick.every) * 1000000;
    passed := step * greatest(
        0,
        1 + floor(
            (extract(epoch from _next_tick.after) - extract(epoch from _next_tick.starts_at))
            * 1000000 / step
        )
    );
    return _next_tick.starts_at
        + interval '24 hours' * div(passed, 86400000000)::double precision
        + interval '1 microsecond' * mod(passed, 86400000000)::double precision;
end
$$;

revoke all on function pgq._next_tick from public;

comment on function pgq._next_tick(
    pgq._cron_times, interval, text, timestamptz, timestamptz
) is
'The first tick of a schedule after a moment.';

create function pgq._last_tick(
    times pgq._cron_times,
    every interval,
    time_zone text,
    starts_at timestamptz,
    tick_at timestamptz,
    moment timestamptz
)
returns timestamptz
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    found_at timestamptz := _last_tick.tick_at;
    open_until timestamptz := _last_tick.moment;
    middle timestamptz;
    later timestamptz;
begin
    -- By halves: years of minutes take some 20 steps. Ticks are a second apart at least.
    while open_until - found_at >= interval '1 second' loop
        middle := found_at + (open_until - found_at) / 2;
        later := pgq._next_tick(
            _last_tick.times, _last_tick.every, _last_tick.time_zone, _last_tick.starts_at, middle
        );
        if later <= open_until then
            found_at := later;
        else
            open_until := middle;
        end if;
    end loop;
    return found_at;
end
$$;

revoke all on function pgq._last_tick from public;

comment on function pgq._last_tick(
    pgq._cron_times, interval, text, timestamptz, timestamptz, timestamptz
) is
'The last tick of a schedule that is not after a moment, given one that is not.';

create function pgq._check_schedule(settings pgq.schedule_info)
returns void
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
begin
    if num_nonnulls(_check_schedule.settings.topic, _check_schedule.settings.queue) <> 1 then
        raise exception '"topic", "queue": exactly one is needed'
            using errcode = case
                    when _check_schedule.settings.queue is null then '22004' else '22023'
                end,
                hint = 'Pass topic, which gets messages, or queue, which gets jobs.';
    end if;
    if num_nonnulls(_check_schedule.settings.cron, _check_schedule.settings.every) <> 1 then
        raise exception '"cron", "every": exactly one is needed'
            using errcode = case
                    when _check_schedule.settings.cron is null then '22004' else '22023'
                end,
                hint = 'Pass cron, like ''30 8 * * MON-FRI'', or every, like ''1 hour''.';
    end if;

    perform pgq._check_content(
        _check_schedule.settings.payload,
        _check_schedule.settings.headers,
        _check_schedule.settings.body
    );
    if _check_schedule.settings.headers ? 'scheduled_at' then
        raise exception 'argument "headers" must not have "scheduled_at"'
            using errcode = '22023',
                detail = 'The time of the tick travels in this header.';
    end if;

    if _check_schedule.settings.queue is not null then
        perform pgq._check_count('priority', _check_schedule.settings.priority, 0, 9);
        perform pgq._check_label(_check_schedule.settings.label);
    end if;
    if (
        _check_schedule.settings.queue is not null
        and _check_schedule.settings.partition is not null
    )
        or (
            _check_schedule.settings.topic is not null
            and num_nonnulls(
                _check_schedule.settings.priority, _check_schedule.settings.label
            ) > 0
        )
    then
        raise exception 'the target of the schedule has no such setting'
            using errcode = '22023',
                hint = 'partition goes with a topic, priority and label go with a queue.';
    end if;

    if _check_schedule.settings.cron is not null then
        perform pgq._cron_times(_check_schedule.settings.cron);
        perform pgq._check_time_zone(_check_schedule.settings.time_zone);
    else
        perform pgq._check_interval('every', _check_schedule.settings.every, false);
        if date_part('year', _check_schedule.settings.every) > 0
            or date_part('month', _check_schedule.settings.every) > 0
            or _check_schedule.settings.every < interval '1 second'
        then
            raise exception 'argument "every" must be at least a second, without months or years'
                using errcode = '22023',
                    detail = format('Given: %s.', _check_schedule.settings.every),
                    hint = 'A month has no fixed length: use cron for times of the calendar.';
        end if;
        if _check_schedule.settings.time_zone is not null then
            raise exception '"every" and "time_zone" exclude each other'
                using errcode = '22023',
                    hint = 'An interval is counted in real time: a day has 24 hours.';
        end if;
    end if;
    if _check_schedule.settings.missed not in ('skip', 'one', 'all') then
        raise exception 'argument "missed" must be skip, one or all'
            using errcode = '22023';
    end if;
    if not isfinite(_check_schedule.settings.starts_at) then
        raise exception 'argument "starts_at" must be finite'
            using errcode = '22023';
    end if;
end
$$;

revoke all on function pgq._check_schedule from public;

comment on function pgq._check_schedule(pgq.schedule_info) is
'Refuses settings that a schedule cannot have (22004, 22023).';

create function pgq._check_schedule_target(queue text, topic text, partition integer)
returns void
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    partitions integer;
begin
    if _check_schedule_target.queue is not null then
        if not exists (
            select
            from pgq.queue as q
            where q.queue = _check_schedule_target.queue
        ) then
            perform pgq._fail_unknown_queue(_check_schedule_target.queue);
        end if;
        return;
    end if;

    select t.partitions
    into partitions
    from pgq.topic as t
    where t.topic = _check_schedule_target.topic;

    if not found then
        perform pgq._fail_unknown_topic(_check_schedule_target.topic);
    end if;
    if _check_schedule_target.partition not between 0 and partitions - 1 then
        perform pgq._fail_unknown_partition(
            _check_schedule_target.topic, _check_schedule_target.partition, partitions
        );
    end if;
end
$$;

revoke all on function pgq._check_schedule_target from public;

comment on function pgq._check_schedule_target(text, text, integer) is
'Refuses a queue, a topic or a partition that is not there (MQ001, MQ002, MQ007).';

create function pgq._schedule_info(schedule text)
returns setof pgq.schedule_info
language sql
stable
parallel safe
rows 1
as $$
select
    s.schedule,
    s.topic,
    s.queue,
    s.payload,
    s.key,
    s.headers,
    s.cron,
    s.every,
    s.time_zone,
    s.missed,
    s.starts_at,
    s.partition,
    s.priority,
    s.label,
    s.body,
    s.paused,
    s.next_at,
    s.last_at,
    s.last_error,
    s.created_at,
    s.updated_at
from pgq.schedule as s
where s.schedule = _schedule_info.schedule
$$;

revoke all on function pgq._schedule_info from public;

comment on function pgq._schedule_info(text) is
'A schedule and its settings; no row when there is none of that name.';

create function pgq.create_schedule(
    schedule text,
    topic text default null,
    queue text default null,
    payload jsonb default null,
    key text default null,
    headers jsonb default null,
    cron text default null,
    every interval default null,
    time_zone text default null,
    missed text default null,
    starts_at timestamptz default null,
    partition integer default null,
    priority integer default null,
    label text default null,
    body bytea default null
)
returns setof pgq.schedule_info
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgq._clock();
    settings pgq.schedule_info;
    existing pgq.schedule_info;
    times pgq._cron_times;
begin
    perform pgq._check_name('schedule', create_schedule.schedule collate "C");

    settings.topic := create_schedule.topic;
    settings.queue := create_schedule.queue;
    settings.payload := create_schedule.payload;
    settings.key := create_schedule.key;
    settings.headers := create_schedule.headers;
    settings.cron := create_schedule.cron;
    settings.every := create_schedule.every;
    settings.time_zone := coalesce(
        create_schedule.time_zone, case when create_schedule.cron is not null then 'UTC' end
    );
    settings.missed := coalesce(create_schedule.missed, 'one');
    settings.starts_at := coalesce(create_schedule.starts_at, date_trunc('second', moment));
    settings.partition := create_schedule.partition;
    settings.priority := coalesce(
        create_schedule.priority, case when create_schedule.queue is not null then 0 end
    );
    settings.label := create_schedule.label;
    settings.body := create_schedule.body;
    perform pgq._check_schedule(settings);

    -- One that is there is found without a lock.
    select i.*
    into existing
    from pgq._schedule_info(create_schedule.schedule collate "C") as i;

    if existing.schedule is not null then
        -- An old snapshot may show one that was dropped since; it cannot be locked.
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            perform
            from pgq.schedule as s
            where s.schedule = create_schedule.schedule collate "C"
            for key share;
        end if;

        -- Contents as texts: a null within them is one.
        perform pgq._check_settings_equal(
            'schedule',
            create_schedule.schedule,
            jsonb_build_object(
                'topic', create_schedule.topic,
                'queue', create_schedule.queue,
                'payload', create_schedule.payload::text,
                'key', create_schedule.key,
                'headers', create_schedule.headers::text,
                'cron', create_schedule.cron,
                'every', create_schedule.every,
                'time_zone', create_schedule.time_zone,
                'missed', create_schedule.missed,
                'starts_at', create_schedule.starts_at,
                'partition', create_schedule.partition,
                'priority', create_schedule.priority,
                'label', create_schedule.label,
                'body', create_schedule.body
            ),
            null,
            to_jsonb(existing) || jsonb_build_object(
                'payload', existing.payload::text, 'headers', existing.headers::text
            )
        );
        return next existing;
        return;
    end if;

    perform pgq._check_schedule_target(settings.queue, settings.topic, settings.partition);
    if settings.cron is not null then
        times := pgq._cron_times(settings.cron);
    end if;
    settings.next_at := pgq._next_tick(
        times,
        settings.every,
        settings.time_zone,
        settings.starts_at,
        coalesce(create_schedule.starts_at - interval '1 microsecond', moment)
    );

    insert into pgq.schedule (
        schedule,
        topic,
        queue,
        payload,
        key,
        headers,
        cron,
        every,
        time_zone,
        missed,
        starts_at,
        partition,
        priority,
        label,
        body,
        next_at,
        due_at,
        created_at,
        updated_at
    )
    values (
        create_schedule.schedule,
        settings.topic,
        settings.queue,
        settings.payload,
        settings.key,
        settings.headers,
        settings.cron,
        settings.every,
        settings.time_zone,
        settings.missed,
        settings.starts_at,
        settings.partition,
        settings.priority,
        settings.label,
        settings.body,
        settings.next_at,
        settings.next_at,
        moment,
        moment
    )
    on conflict (schedule) do nothing;

    if not found then
        -- Another transaction has created it in the meantime.
        return query
        select c.*
        from pgq.create_schedule(
            create_schedule.schedule,
            create_schedule.topic,
            create_schedule.queue,
            create_schedule.payload,
            create_schedule.key,
            create_schedule.headers,
            create_schedule.cron,
            create_schedule.every,
            create_schedule.time_zone,
            create_schedule.missed,
            create_schedule.starts_at,
            create_schedule.partition,
            create_schedule.priority,
            create_schedule.label,
            create_schedule.body
        ) as c;
        return;
    end if;

    return query
    select i.*
    from pgq._schedule_info(create_schedule.schedule collate "C") as i;
end
$$;

revoke all on function pgq.create_schedule from public;

comment on function pgq.create_schedule(
    text,
    text,
    text,
    jsonb,
    text,
    jsonb,
    text,
    interval,
    text,
    text,
    timestamptz,
    integer,
    integer,
    text,
    bytea
) is
'Creates a schedule and returns it; one that exists is returned if it has the settings given.
Each tick is written by run_schedules: to a queue as a job, to a topic as a message, with payload
(JSON) or body (raw bytes), and with the time of the tick in the header scheduled_at. cron: minute,
hour, day of month, month and day of week, like 30 8 * * MON-FRI, or a name like @daily; its times
are those of time_zone, by default UTC. every: an interval in real time, counted from starts_at, in
the place of cron. missed: what becomes of ticks that nobody was there to write: one (the last of
them is written, the default), skip (the same, but not when it is more than 5 minutes late), or all.
starts_at: no tick is before, and one at that time counts; by default now. key, headers: go with
each message; partition, for a topic, and priority and label, for a queue: as in publish and
enqueue. So that it can be called at each start of an application, settings that are not given are
not compared.
Errors: MQ001 unknown topic, MQ002 unknown queue, MQ005 the schedule exists with other settings than
those given, MQ007 unknown partition, 22004 a required argument is null, or no target, time or
content, 22023 bad name or setting, 40001 above READ COMMITTED when another transaction was first
(try again).';

create function pgq.alter_schedule(
    schedule text,
    topic text default null,
    queue text default null,
    payload jsonb default null,
    key text default null,
    headers jsonb default null,
    cron text default null,
    every interval default null,
    time_zone text default null,
    missed text default null,
    starts_at timestamptz default null,
    partition integer default null,
    priority integer default null,
    label text default null,
    body bytea default null
)
returns setof pgq.schedule_info
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    before pgq.schedule_info;
    settings pgq.schedule_info;
    times pgq._cron_times;
begin
    perform
    from pgq.schedule as s
    where s.schedule = alter_schedule.schedule collate "C"
    for no key update;

    if not found then
        perform pgq._fail_unknown_schedule(alter_schedule.schedule collate "C");
    end if;

    select i.*
    into before
    from pgq._schedule_info(alter_schedule.schedule collate "C") as i;

    -- One of a pair takes the place of the other, and what belongs to the other goes with it.
    settings := before;
    if num_nonnulls(alter_schedule.queue, alter_schedule.topic) > 0 then
        settings.topic := alter_schedule.topic;
        settings.queue := alter_schedule.queue;
    end if;
    if num_nonnulls(alter_schedule.payload, alter_schedule.body) > 0 then
        settings.payload := alter_schedule.payload;
        settings.body := alter_schedule.body;
    end if;
    if num_nonnulls(alter_schedule.cron, alter_schedule.every) > 0 then
        settings.cron := alter_schedule.cron;
        settings.every := alter_schedule.every;
    end if;
    settings.key := coalesce(alter_schedule.key, before.key);
    settings.headers := coalesce(alter_schedule.headers, before.headers);
    settings.time_zone := coalesce(
        alter_schedule.time_zone,
        case when settings.cron is not null then coalesce(before.time_zone, 'UTC') end
    );
    settings.missed := coalesce(alter_schedule.missed, before.missed);
    settings.starts_at := coalesce(alter_schedule.starts_at, before.starts_at);
    settings.partition := coalesce(
        alter_schedule.partition, case when settings.topic is not null then before.partition end
    );
    settings.priority := coalesce(
        alter_schedule.priority,
        case when settings.queue is not null then coalesce(before.priority, 0) end
    );
    settings.label := coalesce(
        alter_schedule.label, case when settings.queue is not null then before.label end
    );
    perform pgq._check_schedule(settings);
    if num_nonnulls(
        alter_schedule.queue, alter_schedule.topic, alter_schedule.partition
    ) > 0 then
        perform pgq._check_schedule_target(settings.queue, settings.topic, settings.partition);
    end if;

    -- New times count from now on.
    if (settings.cron, settings.every, settings.time_zone, settings.starts_at)
        is distinct from (before.cron, before.every, before.time_zone, before.starts_at)
    then
        if settings.cron is not null then
            times := pgq._cron_times(settings.cron);
        end if;
        settings.next_at := pgq._next_tick(
            times, settings.every, settings.time_zone, settings.starts_at, pgq._clock()
        );
    end if;

    update pgq.schedule as s
    set
        topic = settings.topic,
        queue = settings.queue,
        payload = settings.payload,
        key = settings.key,
        headers = settings.headers,
        cron = settings.cron,
        every = settings.every,
        time_zone = settings.time_zone,
        missed = settings.missed,
        starts_at = settings.starts_at,
        partition = settings.partition,
        priority = settings.priority,
        label = settings.label,
        body = settings.body,
        next_at = settings.next_at,
        due_at = settings.next_at,
        updated_at = pgq._clock()
    where s.schedule = alter_schedule.schedule collate "C";

    return query
    select i.*
    from pgq._schedule_info(alter_schedule.schedule collate "C") as i;
end
$$;

revoke all on function pgq.alter_schedule from public;

comment on function pgq.alter_schedule(
    text,
    text,
    text,
    jsonb,
    text,
    jsonb,
    text,
    interval,
    text,
    text,
    timestamptz,
    integer,
    integer,
    text,
    bytea
) is
'Changes settings of a schedule and returns it; what is null stays as it is.
See create_schedule for the settings. Of queue and topic, cron and every, payload and body, the one
that is given takes the place of the other. When cron, every, time_zone or starts_at changes, ticks
count from now on: what was due before and is not written is left out. It waits for a run_schedules
that is writing a tick of the schedule.
Errors: MQ001 unknown topic, MQ002 unknown queue, MQ007 unknown partition, MQ009 unknown schedule,
22004 a required argument is null, 22023 bad settings, 40001 above READ COMMITTED when another
transaction was first (try again).';

create function pgq.drop_schedule(schedule text)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    delete from pgq.schedule as s
    where s.schedule = drop_schedule.schedule collate "C";

    if not found then
        perform pgq._fail_unknown_schedule(drop_schedule.schedule collate "C");
    end if;
end
$$;

revoke all on function pgq.drop_schedule from public;

comment on function pgq.drop_schedule(text) is
'Removes a schedule; what it has written stays.
It waits for a run_schedules that is writing a tick of the schedule.
Errors: MQ009 unknown schedule, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';

create function pgq.list_schedules(schedule text default null)
returns setof pgq.schedule_info
language plpgsql
stable
parallel safe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select i.*
    from pgq.schedule as s
    cross join lateral pgq._schedule_info(s.schedule) as i
    where s.schedule = coalesce(list_schedules.schedule collate "C", s.schedule)
    order by s.schedule;

    if not found and list_schedules.schedule is not null then
        perform pgq._fail_unknown_schedule(list_schedules.schedule collate "C");
    end if;
end
$$;

revoke all on function pgq.list_schedules from public;

comment on function pgq.list_schedules(text) is
'A schedule, or all of them, by name: settings, next and last tick, and the last error.
Errors: MQ009 unknown schedule.';

create function pgq.pause_schedule(schedule text)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    update pgq.schedule as s
    set paused = true
    where s.schedule = pause_schedule.schedule collate "C";

    if not found then
        perform pgq._fail_unknown_schedule(pause_schedule.schedule collate "C");
    end if;
end
$$;

revoke all on function pgq.pause_schedule from public;

comment on function pgq.pause_schedule(text) is
'Has run_schedules leave out a schedule until resume_schedule; a paused schedule stays paused.
It waits for a run_schedules that is writing a tick of the schedule.
Errors: MQ009 unknown schedule, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';

create function pgq.resume_schedule(schedule text)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    update pgq.schedule as s
    set paused = false
    where s.schedule = resume_schedule.schedule collate "C";

    if not found then
        perform pgq._fail_unknown_schedule(resume_schedule.schedule collate "C");
    end if;
end
$$;

revoke all on function pgq.resume_schedule from public;

comment on function pgq.resume_schedule(text) is
'Has run_schedules write the ticks of a schedule again; nothing changes if it is not paused.
Those that came during the pause were missed: the setting missed says what becomes of them.
Errors: MQ009 unknown schedule, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';

create function pgq.next_ticks(
    cron text,
    time_zone text default null,
    after timestamptz default null,
    max_ticks integer default null
)
returns table (tick_at timestamptz)
language plpgsql
stable
parallel safe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    zone text := coalesce(next_ticks.time_zone, 'UTC');
    wanted integer := coalesce(next_ticks.max_ticks, 10);
    moment timestamptz := coalesce(next_ticks.after, pgq._clock());
    times pgq._cron_times;
begin
    if next_ticks.cron is null then
        raise exception 'argument "cron" must not be null'
            using errcode = '22004';
    end if;
    perform pgq._check_time_zone(zone collate "C");
    perform pgq._check_count('max_ticks', wanted, 1, 100000);
    if not isfinite(moment) then
        raise exception 'argument "after" must be finite'
            using errcode = '22023';
    end if;

    times := pgq._cron_times(next_ticks.cron collate "C");
    for n in 1 .. wanted loop
        moment := pgq._cron_tick(times, zone collate "C", moment);
        tick_at := moment;
        return next;
    end loop;
end
$$;

revoke all on function pgq.next_ticks from public;

comment on function pgq.next_ticks(text, text, timestamptz, integer) is
'The next times that a cron expression names, to try it out before it is used.
See create_schedule for cron and time_zone. after: by default now. max_ticks: how many, by default
10.
Errors: 22004 a required argument is null, 22023 bad argument.';

create function pgq._run_schedule(schedule text, moment timestamptz, max_ticks integer)
returns setof pgq.schedule_run
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target pgq.schedule;
    times pgq._cron_times;
    run pgq.schedule_run;
    following timestamptz;
    tick_headers jsonb;
begin
    -- The caller has locked the row.
    select s.*
    into target
    from pgq.schedule as s
    where s.schedule = _run_schedule.schedule;

    if target.cron is not null then
        times := pgq._cron_times(target.cron);
    end if;

    run.schedule := target.schedule;
    following := target.next_at;
    if target.missed <> 'all' then
        following := pgq._last_tick(
            times,
            target.every,
            target.time_zone,
            target.starts_at,
            target.next_at,
            _run_schedule.moment
        );
    end if;

    for n in 1 .. _run_schedule.max_ticks loop
        exit when following > _run_schedule.moment;
        run.tick_at := following;
        following := pgq._next_tick(
            times, target.every, target.time_zone, target.starts_at, run.tick_at
        );
        continue when target.missed = 'skip'
            and run.tick_at < _run_schedule.moment - interval '5 minutes';

        tick_headers := coalesce(target.headers, '{}') || jsonb_build_object(
            'scheduled_at', (to_jsonb(run.tick_at at time zone 'UTC') #>> '{}') || '+00:00'
        );
        if target.queue is not null then
            select e.job_id
            into run.job_id
            from pgq.enqueue(
                queue => target.queue,
                payload => target.payload,
                key => target.key,
                headers => tick_headers,
                priority => target.priority,
                label => target.label,
                body => target.body
            ) as e;
        else
            select p.partition, p.log_offset
            into run.partition, run.log_offset
            from pgq.publish(
                topic => target.topic,
                payload => target.payload,
                key => target.key,
                headers => tick_headers,
                partition => target.partition,
                body => target.body
            ) as p;
        end if;
        target.last_at := run.tick_at;
        target.last_error := null;
        return next run;
    end loop;

    -- What may not be written any more by this call waits behind what is due by now.
    update pgq.schedule as s
    set
        next_at = following,
        due_at = greatest(following, _run_schedule.moment),
        last_at = target.last_at,
        last_error = target.last_error
    where s.schedule = target.schedule;
end
$$;

revoke all on function pgq._run_schedule from public;

comment on function pgq._run_schedule(text, timestamptz, integer) is
'Writes what is due of a schedule at a moment, at most so many ticks, and moves its next tick.';

create function pgq.run_schedules(max_ticks integer default null)
returns setof pgq.schedule_run
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    wanted integer := coalesce(run_schedules.max_ticks, 1000);
    moment timestamptz := pgq._clock();
    due text[];
    name text;
    problem text;
begin
    perform pgq._check_count('max_ticks', wanted, 1, 100000);

    -- What another caller is about to write is left to it. Above READ COMMITTED a row that another
    -- one has changed since cannot be locked, which is 40001.
    with locked as materialized (
        select s.schedule
        from pgq.schedule as s
        where s.due_at <= moment
            and not s.paused
        order by s.due_at
        limit wanted
        for update skip locked
    )

    select array_agg(l.schedule)
    into due
    from locked as l;

    -- Partitions are locked in ascending order; messages that go to any that is free come after
    -- those whose partition is fixed, as they need not wait.
    for name in
        select s.schedule
        from pgq.schedule as s
        left join pgq.partition as p on p.topic = s.topic and p.partition = 0
        where s.schedule = any(due)
        order by
            s.topic nulls first,
            coalesce(
                s.partition,
                (hashtextextended(s.key, 0) % p.partitions + p.partitions) % p.partitions
            ) nulls last,
            s.next_at,
            s.schedule
    loop
        begin
            -- One that has many ticks to make up for leaves room for the others.
            return query
            select r.*
            from pgq._run_schedule(name, moment, wanted / cardinality(due)) as r;
        exception
            when invalid_parameter_value or sqlstate 'MQ001' or sqlstate 'MQ002'
                or sqlstate 'MQ007'
            then
                problem := format('%s: %s', sqlstate, sqlerrm);
                return query
                update pgq.schedule as s
                set
                    due_at = moment + interval '1 minute',
                    last_error = problem
                where s.schedule = name
                returning
                    s.schedule,
                    s.next_at,
                    null::bigint,
                    null::integer,
                    null::bigint,
                    s.last_error;
        end;
    end loop;
end
$$;

revoke all on function pgq.run_schedules from public;

comment on function pgq.run_schedules(integer) is
'Writes the ticks of all schedules that are due, each of them once, whoever calls it.
Call it every minute or more often, from wherever you like; several at once share the work. A tick
is written in the transaction of the call, so commit soon: what it has found is left alone by others
until then. At most max_ticks (by default 1000) are written, shared out among the schedules that are
due; what is left comes with the next call. When a target is not there, or refuses what is written,
the row says so in error and the others go on; the tick is tried again a minute later, and is then
one that was missed.
Errors: 22023 bad argument, 40001 above READ COMMITTED when another transaction was first (try
again).';

create or replace function pgq.cleanup()
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set lock_timeout = '200ms'
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    -- An id that is higher than all that run now: not if this transaction had one before.
    started pg_snapshot := pg_current_snapshot();
    horizon xid8 := case
        when pg_current_xact_id_if_assigned() is null then pg_current_xact_id()
    end;
    moment timestamptz := pgq._clock();
    part text;
begin
    perform pgq._check_read_committed('cleanup');

    -- A part that meets a lock is undone and reported as busy, the others are done. What locks
    -- rows that consumers and publishers need comes last: behind all that may wait or take long.
    foreach part in array array[
        'jobs', 'effects', 'writes', 'leftovers', 'truncation', 'positions', 'closing', 'sealing'
    ] loop
        begin
            case part
                when 'jobs' then
                    return query
                    select r.* from pgq._clean_jobs(started, horizon, moment) as r;
                when 'effects' then
                    return query
                    select r.* from pgq._clean_effects() as r;
                when 'positions' then
                    return query
                    select r.* from pgq._clean_positions() as r;
                when 'writes' then
                    return query
                    select r.* from pgq._clean_writes(moment) as r;
                when 'leftovers' then
                    return query
                    select r.* from pgq._clean_leftovers(started, horizon, moment) as r;
                when 'closing' then
                    return query
                    select r.* from pgq._close_segments(started, horizon, moment) as r;
                when 'sealing' then
                    return query
                    select r.* from pgq._seal_segments(moment) as r;
                when 'truncation' then
                    return query
                    select r.* from pgq._truncate_segments(moment) as r;
            end case;
        exception
            when lock_not_available then
                return next row('busy', part, 1)::pgq.cleanup_action;
        end;
    end loop;
end
$$;

comment on function pgq.cleanup() is
'Does the housekeeping, and returns what was done, a row per thing.
Call it every minute or so, from cron or pg_cron or any client; delivery never depends on it, disk
space does. One call does a bounded piece of work, and waits 0.2 s at most for a lock. Several at
once do no harm.
What it does, by the action that the row has:
- jobs expired: unfinished jobs of a queue, past its job_ttl, are removed;
- jobs died: jobs of a queue, whose worker was lost on the last attempt, are dead letters now;
- dead letters removed: those of a queue, past its retention;
- floor lowered: claims of a queue begin further in front again, after the clock went back;
- effects removed: notes of `begin_effect` about jobs that have ended;
- positions trimmed: old positions of a group, which nothing needs any more, are removed;
- bulk write forgotten: it was not committed within its timeout, or what it writes to was dropped;
- staged write removed: nothing is left of what was staged for a write that was given up;
- leftovers removed: what a segment had from a time without a retention, and is not kept any more;
- segment sealed: new messages go to another segment from now on;
- segment closed: nothing is added to it any more;
- payloads moved: those of jobs that live on, and of dead letters, to another segment;
- segment truncated: it is older than its retention, or not needed for max_bytes, and empty now;
- segment busy: it is due as well, but somebody reads it or works on its jobs; a later call goes on;
- busy: a part of the work met a lock; what it did is undone, and the next call does it;
- more: a part of the work has more to do than one call does; call again at once.
Errors: 25001 not under READ COMMITTED.';

create view pgq.effects
with (security_barrier) as
select
    q.queue,
    e.job_id,
    e.effect,
    case
        when e.finished_at is not null then 'finished'
        when j.lease_token = e.lease_token and j.visible_at > c.moment then 'begun'
        else 'interrupted'
    end as state,
    e.result,
    e.attempt,
    e.begun_at,
    e.finished_at,
    e.lease_token
from pgq.effect as e
cross join lateral (select pgq._clock() as moment limit 1) as c
left join pgq.job as j on j.job_id = e.job_id
left join pgq.dead_job as d on d.job_id = e.job_id
inner join pgq.queue as q on q.queue_id = coalesce(j.queue_id, d.queue_id);

comment on view pgq.effects is
'Effects of jobs that are to happen once, as long as the jobs are not finished; see begin_effect.';

comment on column pgq.effects.queue is 'The queue.';

comment on column pgq.effects.job_id is 'The id of the job.';

comment on column pgq.effects.effect is 'Which of the effects of the job.';

comment on column pgq.effects.state is
'begun: its worker may be at it; finished: it has happened; interrupted: its worker has lost the job
or given it back, and nobody knows whether it happened.';

comment on column pgq.effects.result is 'What finish_effect was given; null: nothing.';

comment on column pgq.effects.attempt is 'Which attempt of the job began it.';

comment on column pgq.effects.begun_at is 'When that was.';

comment on column pgq.effects.finished_at is
'When it was noted that it has happened; null: nobody has said so.';

comment on column pgq.effects.lease_token is
'What finish_effect and forget_effect ask for, to say what became of it.';

do $dump_configuration$
declare
    relation regclass;
begin
    if not exists (select from pg_extension where extname = 'pgq') then
        return;
    end if;
    for relation in
        select c.oid
        from pg_class as c
        where c.relnamespace = 'pgq'::regnamespace
            and c.relkind in ('r', 'S')
            -- Each installation has its own.
            and c.relname not in ('leaf', 'view_key')
        order by c.oid
    loop
        perform pg_extension_config_dump(relation, '');
    end loop;
end
$dump_configuration$;
