create type pgq.bulk_result as (
    taken bigint,
    seen bigint,
    after_id bigint
);

comment on type pgq.bulk_result is 'The result of a call for many jobs of a queue.';
comment on column pgq.bulk_result.taken is
'Number of jobs that it changed, or with dry_run would have changed.';
comment on column pgq.bulk_result.seen is 'Number of jobs that it examined.';
comment on column pgq.bulk_result.after_id is
'Pass it to the next call, which continues from there; null: no jobs are left.';

create type pgq._job_filter as (
    label text collate "C",
    error_contains text collate "C",
    key text collate "C",
    since timestamptz,
    before timestamptz,
    leased boolean,
    max_jobs integer,
    after_id bigint
);

comment on type pgq._job_filter is
'Which jobs of a queue a call is about; null: whatever they have there.';
comment on column pgq._job_filter.label is 'The label of a job.';
comment on column pgq._job_filter.error_contains is 'A part of its last error.';
comment on column pgq._job_filter.key is 'Its key, in an ordered queue.';
comment on column pgq._job_filter.since is
'It died, or is due or leased until, at this time or later.';
comment on column pgq._job_filter.before is 'It died, or is due or leased until, before.';
comment on column pgq._job_filter.leased is 'Whether leased ones are among them.';
comment on column pgq._job_filter.max_jobs is 'How many at most; null: no limit.';
comment on column pgq._job_filter.after_id is 'Those with a higher id; null: all.';

create type pgq._found_jobs as (
    ids bigint array,
    seen bigint,
    after_id bigint
);

comment on type pgq._found_jobs is 'Jobs that match a filter.';
comment on column pgq._found_jobs.ids is 'Their ids, in ascending order.';
comment on column pgq._found_jobs.seen is 'How many jobs of the queue were looked at.';
comment on column pgq._found_jobs.after_id is 'Where to go on; null: there are no more.';
