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
    updated_at timestamptz not null,
    topic_id bigint,
    queue_id bigint,
    made_by text collate "C"
);

create index schedule_due on pgq.schedule (due_at) where not paused;

comment on table pgq.schedule is
'Schedules: jobs and messages that are written repeatedly, and the time of the next tick.
The id identifies the target, its name is for display: a new topic or queue with the name of a
dropped target gets nothing.';
comment on column pgq.schedule.schedule is 'Name of the schedule.';
comment on column pgq.schedule.queue is 'The queue that gets a job; null: the target is a topic.';
comment on column pgq.schedule.topic is
'The topic that gets a message; null: the target is a queue.';
comment on column pgq.schedule.cron is 'A cron expression; null: every is set.';
comment on column pgq.schedule.every is 'An interval; null: cron is set.';
comment on column pgq.schedule.time_zone is
'The time zone of the cron expression; null: every is set.';
comment on column pgq.schedule.missed is
'How ticks that were not written in time are treated: skip, one or all.';
comment on column pgq.schedule.starts_at is
'The earliest time of a tick; an interval is counted from here.';
comment on column pgq.schedule.next_at is
'The first tick that is neither written nor left out. It never decreases, even when the clock is set
back, so no tick is written twice. Exception: repair_clock, after which only last_at is not written
again.';
comment on column pgq.schedule.due_at is
'Time from which run_schedules writes it: next_at, or later after an error or when a call has
reached max_ticks.';
comment on column pgq.schedule.last_at is 'The latest tick that was written; null: none yet.';
comment on column pgq.schedule.last_error is
'The error of the last attempt to write a tick; null: it succeeded.';
comment on column pgq.schedule.created_at is 'Time of creation.';
comment on column pgq.schedule.updated_at is 'Time of the last change of its settings.';
comment on column pgq.schedule.topic_id is
'Id of the target topic, even if it was dropped; null: the target is a queue.';
comment on column pgq.schedule.queue_id is
'Id of the target queue, even if it was dropped; null: the target is a topic.';
comment on column pgq.schedule.made_by is
'The role that last named its target; null: the owner of pgq.';
