-- Whoever reads a view needs the right to the functions in it, though not to its tables. So the
-- views do without the helpers, but for two that are open to all; the one that tells anything asks
-- for a key that only the views can read.
-- The linter cannot lay out lateral joins.
-- noqa: disable=AM09,LT02,LT09,LT14,ST05,ST09

create view pgq.group_lag
with (security_barrier) as
select
    l.topic,
    l.consumer_group,
    l.partition,
    q.next_offset - 1 as position,
    s.tip,
    s.tip - q.next_offset + 1 as lag,
    s.published_at as oldest_published_at,
    case when q.leased_until > pgq._clock() then q.leased_until end as leased_until
from pgq.group_partition as l
inner join pgq.partition as p on p.partition_id = l.partition_id
cross join lateral (
    select j.next_offset, j.leased_until
    from pgq.group_position as j
    where j.group_id = l.group_id
        and j.partition = l.partition
    order by j.seq desc
    limit 1
) as q
cross join lateral pgq._partition_figures(
    (select k.key from pgq.view_key as k),
    p.partition_id,
    p.segment,
    p.segment_first_offset,
    q.next_offset,
    null
) as s;

comment on view pgq.group_lag is
'How far each consumer group is behind, per partition; lag = tip - position.';
comment on column pgq.group_lag.topic is 'The topic.';
comment on column pgq.group_lag.consumer_group is 'The group.';
comment on column pgq.group_lag.partition is 'The partition, from 0.';
comment on column pgq.group_lag.position is
'The last offset that the group has done with; 0: none.';
comment on column pgq.group_lag.tip is 'The newest offset of the partition; 0: no message yet.';
comment on column pgq.group_lag.lag is 'How many messages the group has before it.';
comment on column pgq.group_lag.oldest_published_at is
'When the next message for the group was published; null: it has caught up.';
comment on column pgq.group_lag.leased_until is
'Until when a member has the partition; null: nobody.';

create view pgq.topic_stats
with (security_barrier) as
select
    p.topic,
    p.partition,
    s.first_offset,
    s.tip,
    s.tip - s.first_offset + 1 as messages,
    s.tip + 1 - s.since_offset as published_last_minute
from pgq.partition as p
cross join lateral pgq._partition_figures(
    (select k.key from pgq.view_key as k),
    p.partition_id,
    p.segment,
    p.segment_first_offset,
    null,
    pgq._clock() - interval '1 minute'
) as s;

comment on view pgq.topic_stats is 'What each topic partition holds, and how much came in lately.';
comment on column pgq.topic_stats.topic is 'The topic.';
comment on column pgq.topic_stats.partition is 'The partition, from 0.';
comment on column pgq.topic_stats.first_offset is 'The oldest offset that is kept.';
comment on column pgq.topic_stats.tip is 'The newest offset; 0: no message yet.';
comment on column pgq.topic_stats.messages is 'How many messages are kept.';
comment on column pgq.topic_stats.published_last_minute is
'How many came in during the last minute.';

create view pgq.queue_stats
with (security_barrier) as
select
    q.queue,
    coalesce(s.ready, 0) as ready,
    coalesce(s.leased, 0) as leased,
    coalesce(s.delayed, 0) as delayed,
    coalesce(s.expired, 0) as expired,
    (select count(*) from pgq.dead_job as d where d.queue_id = q.queue_id) as dead,
    coalesce(date_part('epoch', c.moment - s.oldest), 0) as oldest_ready_seconds,
    q.paused
from pgq.queue as q
cross join lateral (select pgq._clock() as moment limit 1) as c
cross join lateral (
    select
        count(*) filter (where not e.expired and j.visible_at <= c.moment) as ready,
        count(*) filter (where j.visible_at > c.moment and j.lease_token is not null) as leased,
        count(*) filter (
            where not e.expired and j.visible_at > c.moment and j.lease_token is null
        ) as delayed,
        count(*) filter (
            where e.expired and not (j.visible_at > c.moment and j.lease_token is not null)
        ) as expired,
        min(j.visible_at) filter (where not e.expired and j.visible_at <= c.moment) as oldest
    from pgq.job as j
    cross join lateral (
        select coalesce(j.expires_at <= c.moment, false) as expired
    ) as e
    where j.queue_id = q.queue_id
) as s;

comment on view pgq.queue_stats is 'How many jobs each queue has, by state.';
comment on column pgq.queue_stats.queue is 'The queue.';
comment on column pgq.queue_stats.ready is 'Jobs that may be claimed now.';
comment on column pgq.queue_stats.leased is 'Jobs that a worker has.';
comment on column pgq.queue_stats.delayed is 'Jobs whose time has not come.';
comment on column pgq.queue_stats.expired is
'Jobs past their retention, until cleanup removes them.';
comment on column pgq.queue_stats.dead is 'Dead letters.';
comment on column pgq.queue_stats.oldest_ready_seconds is
'For how many seconds the job that is due longest has been due; 0: none is.';
comment on column pgq.queue_stats.paused is 'Whether claims get nothing for now.';

create view pgq.dead_letters
with (security_barrier) as
select
    q.queue,
    d.job_id,
    d.attempt,
    d.last_error,
    d.died_at,
    d.priority::integer as priority,
    d.label,
    m.key,
    m.headers,
    m.payload,
    m.body
from pgq.dead_job as d
inner join pgq.queue as q on q.queue_id = d.queue_id
left join pgq.message as m
    on m.segment = d.segment
    and m.partition_id = d.partition_id
    and m.log_offset = d.log_offset;

comment on view pgq.dead_letters is
'Jobs that used up their attempts; pgq.redrive puts them back, pgq.purge_queue removes them.';
comment on column pgq.dead_letters.queue is 'The queue.';
comment on column pgq.dead_letters.job_id is 'The id of the job.';
comment on column pgq.dead_letters.attempt is 'How often it was delivered.';
comment on column pgq.dead_letters.last_error is
'What the last nack said, or that its lease ran out.';
comment on column pgq.dead_letters.died_at is 'When it became a dead letter.';
comment on column pgq.dead_letters.priority is '0 (first) to 9 (last).';
comment on column pgq.dead_letters.label is 'Its label; null: none.';
comment on column pgq.dead_letters.key is 'Its key; null: none.';
comment on column pgq.dead_letters.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.dead_letters.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.dead_letters.body is 'Its content as raw bytes; null when it has a payload.';

create view pgq.archived_jobs
with (security_barrier) as
select
    q.queue,
    a.job_id,
    a.outcome,
    a.attempt,
    m.published_at as enqueued_at,
    a.ended_at,
    a.result,
    a.last_error,
    a.label,
    m.key,
    m.headers,
    m.payload,
    m.body
from pgq.job_archive as a
inner join pgq.queue as q on q.queue_id = a.queue_id
left join pgq.message as m
    on m.segment = a.segment
    and m.partition_id = coalesce(a.partition_id, q.partition_id)
    and m.log_offset = coalesce(a.log_offset, a.job_id);

comment on view pgq.archived_jobs is
'Finished jobs, until they are older than the retention of their queue.';
comment on column pgq.archived_jobs.queue is 'The queue.';
comment on column pgq.archived_jobs.job_id is 'The id of the job.';
comment on column pgq.archived_jobs.outcome is 'acked, expired, or what archive_job was told.';
comment on column pgq.archived_jobs.attempt is 'How often it was delivered.';
comment on column pgq.archived_jobs.enqueued_at is 'When it was enqueued.';
comment on column pgq.archived_jobs.ended_at is 'When it was finished.';
comment on column pgq.archived_jobs.result is 'What archive_job was given; null: nothing.';
comment on column pgq.archived_jobs.last_error is 'The error of the last nack before; null: none.';
comment on column pgq.archived_jobs.label is 'Its label; null: none.';
comment on column pgq.archived_jobs.key is 'Its key; null: none.';
comment on column pgq.archived_jobs.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.archived_jobs.payload is 'Its content as JSON; null when it had a body.';
comment on column pgq.archived_jobs.body is 'Its content as raw bytes; null when it had a payload.';
