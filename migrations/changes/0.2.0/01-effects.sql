-- Effects of jobs.
create type pgq.effect_state as (
    state text,
    result jsonb,
    attempt integer,
    begun_at timestamptz
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
