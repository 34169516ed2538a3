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
'What is enqueued or published again and again, and when it is next.
The id says which topic or queue it is, the name is for display: one that is made again under the
name of one that was dropped gets nothing.';
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
so no tick is written twice; but for repair_clock, after which last_at is not written again.';
comment on column pgq.schedule.due_at is
'When run_schedules looks at it: at next_at; later when there was an error, or more than one call
may write.';
comment on column pgq.schedule.last_at is 'The latest tick that was written; null: none yet.';
comment on column pgq.schedule.last_error is
'Why the last try to write a tick failed; null: it did not.';
comment on column pgq.schedule.created_at is 'When it was made.';
comment on column pgq.schedule.updated_at is 'When its settings last changed.';
comment on column pgq.schedule.topic_id is
'The topic by its id, also when that is gone; null: it has a queue.';
comment on column pgq.schedule.queue_id is
'The queue by its id, also when that is gone; null: it has a topic.';
comment on column pgq.schedule.made_by is
'The role that named its target last; null: the owner of pgq.';
