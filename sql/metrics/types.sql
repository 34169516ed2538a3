create type pgq._sample as (
    name text,
    labels jsonb,
    value double precision
);

comment on type pgq._sample is 'A figure: of which metric, of what, and how much.';

create type pgq._job_figures as (
    queue_id bigint,
    ready double precision,
    leased double precision,
    delayed double precision,
    waiting double precision,
    expired double precision,
    retrying double precision,
    dead double precision,
    estimated boolean
);

comment on type pgq._job_figures is 'How many jobs a queue has, by state.';
