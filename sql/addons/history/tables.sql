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
