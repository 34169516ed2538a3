-- noqa: disable=RF05
create type pgq.metric as (
    name text,
    type text,
    help text,
    labels jsonb,
    value double precision
);

comment on type pgq.metric is 'A figure, as Prometheus knows them.';
comment on column pgq.metric.name is 'Its name: seconds and bytes, _total for what only rises.';
comment on column pgq.metric.type is 'gauge or counter.';
comment on column pgq.metric.help is 'What it says.';
comment on column pgq.metric.labels is 'Of what it is: texts by their names.';
comment on column pgq.metric.value is 'The figure.';

-- PostgREST knows by this name what kind of text it is.
create domain pgq."text/plain" as text;

comment on domain pgq."text/plain" is 'A text that is served as it is.';

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
