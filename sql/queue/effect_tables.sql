-- Those of jobs that have ended stay until cleanup finds them: what ends a job does not know them.
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

create sequence pgq.effect_walk as bigint minvalue 0;

comment on sequence pgq.effect_walk is
'Up to which job cleanup has looked for effects of jobs that have ended; it goes round and round.';
