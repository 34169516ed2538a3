-- Whatever ends a job leaves its effects alone: cleanup removes them later.
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
'Effects of jobs that must happen once: begun or finished, with the outcome.';
comment on column pgq.effect.effect is 'Name of the effect, unique within its job.';
comment on column pgq.effect.lease_token is
'Token of the claim that began it last, or recorded that it happened.';
comment on column pgq.effect.attempt is 'The attempt of the job that began it last.';
comment on column pgq.effect.begun_at is 'When it was begun last.';
comment on column pgq.effect.finished_at is 'When it was recorded as finished; null: not recorded.';
comment on column pgq.effect.result is
'The result given to finish_effect; null: none, or not finished.';

create sequence pgq.effect_walk as bigint minvalue 0;

comment on sequence pgq.effect_walk is
'The job up to which cleanup has searched for effects of ended jobs; starts over at the end.';
