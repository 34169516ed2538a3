-- noqa: disable=RF05
create type pgq.metric as (
    name text,
    type text,
    help text,
    labels jsonb,
    value double precision
);

comment on type pgq.metric is 'A sample of a metric, as in Prometheus.';
comment on column pgq.metric.name is
'The name of the metric: with seconds or bytes as unit, _total for counters.';
comment on column pgq.metric.type is 'gauge or counter.';
comment on column pgq.metric.help is 'A description of the metric.';
comment on column pgq.metric.labels is 'What the sample is about: a JSON object of texts.';
comment on column pgq.metric.value is 'The value of the sample.';

-- PostgREST takes the media type of the response from this name.
create domain pgq."text/plain" as text;

comment on domain pgq."text/plain" is 'A text that PostgREST serves as text/plain.';

create type pgq._sample as (
    name text,
    labels jsonb,
    value double precision
);

comment on type pgq._sample is 'A sample: the name of its metric, its labels and its value.';

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

comment on type pgq._job_figures is 'The number of jobs of a queue, by state.';

create type pgq._finished_jobs as (
    queue_id bigint,
    finished double precision
);

comment on type pgq._finished_jobs is 'The number of finished jobs of a queue.';

create type pgq._newest_offset as (
    topic_id bigint,
    partition_id bigint,
    stored_id bigint,
    kept_from bigint,
    segment integer,
    first_offset bigint,
    last_offset bigint
);

comment on type pgq._newest_offset is
'The newest offset of a partition. kept_from: the oldest offset kept. stored_id, segment,
first_offset: where its messages are stored, and the first offset there.';

create type pgq._group_offset as (
    group_id bigint,
    partition integer,
    next_offset bigint,
    last_offset bigint,
    attempt integer,
    segment integer,
    stored_id bigint,
    stored_offset bigint,
    published_at timestamptz
);

comment on type pgq._group_offset is
'What a group reads next in a partition. segment (null: it has caught up), stored_id, stored_offset:
where that message is stored. published_at: its publish time where segment_range gives it (one for
all messages of an extent).';
