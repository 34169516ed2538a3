-- Whatever ends a job leaves its notes alone: cleanup removes them later.
create table pgq.job_note (
    job_id bigint primary key,
    snoozes integer not null default 0,
    progress jsonb,
    progress_at timestamptz
);

comment on table pgq.job_note is
'What is noted about an unfinished job or a dead letter beside its row; no row: nothing.';
comment on column pgq.job_note.snoozes is 'How often release_job gave it back with a delay.';
comment on column pgq.job_note.progress is 'The progress given last to set_progress; null: none.';
comment on column pgq.job_note.progress_at is 'When that was given; null: never.';

create sequence pgq.job_note_walk as bigint minvalue 0;

comment on sequence pgq.job_note_walk is
'The job up to which cleanup has searched for notes of ended jobs; starts over at the end.';

create table pgq.job_event (
    job_id bigint not null,
    queue_id bigint not null,
    ended_at timestamptz not null,
    began_at timestamptz,
    segment integer not null,
    attempt integer not null,
    event text collate "C" not null,
    worker text,
    error text,
    result jsonb
)
partition by list (segment);

create index job_event_job on pgq.job_event (job_id);

comment on table pgq.job_event is
'Attempts of jobs that failed, and how jobs of queues with keep_results have ended; a leaf is
truncated together with the segment of the same number.';
comment on column pgq.job_event.ended_at is
'When it was noted: a lost lease by the claim or the cleanup that met it.';
comment on column pgq.job_event.began_at is 'When the attempt began, as the client says.';
comment on column pgq.job_event.segment is
'The segment that was open for the queue at that time; not that of the payload.';
comment on column pgq.job_event.attempt is 'The number of the attempt.';
comment on column pgq.job_event.event is
'Of an attempt: failed, lost or rejected. Of a job: finished, cancelled, expired
or replaced.';
comment on column pgq.job_event.worker is 'The worker, as the client says.';
comment on column pgq.job_event.error is 'The error of the attempt; null: none.';
comment on column pgq.job_event.result is 'The result given to archive_job; null: none.';
