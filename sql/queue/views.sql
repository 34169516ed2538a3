-- A reader of a view needs EXECUTE on its functions, but no rights on its tables: the clock is open
-- to PUBLIC, and so is _visible_queues, which asks for a key that only the views can read. Columns
-- are expressions with v so that EXPLAIN reveals nothing of hidden rows: see log/views.sql.
-- Of a queue, queue_stats counts at most pgq.count_at_most jobs and dead letters each. That is a
-- setting of the session; unset: all.
-- The linter cannot lay out lateral joins.
-- noqa: disable=AM09,LT02,LT09,LT14,ST05,ST09

create view pgq.queue_stats
with (security_barrier) as
select
    v.queue collate "C" as queue,
    case when v.queue_id is not null then coalesce(s.ready, 0) end as ready,
    case when v.queue_id is not null then coalesce(s.leased, 0) end as leased,
    case when v.queue_id is not null then coalesce(s.delayed, 0) end as delayed,
    case when v.queue_id is not null then coalesce(s.expired, 0) end as expired,
    case
        when v.queue_id is not null then (
            select count(*)
            from (
                select
                from pgq.dead_job as d
                where d.queue_id between q.queue_id and q.queue_id
                limit nullif(current_setting('pgq.count_at_most', true), '')::bigint
            ) as d
        )
    end as dead,
    case when v.queue_id is not null then s.oldest end as oldest_ready_at,
    case when v.queue_id is not null then q.paused end as paused,
    case when v.queue_id is not null then coalesce(s.waiting, 0) end as waiting,
    case
        when v.queue_id is null then null
        when q.paused then 'paused'
        when s.leased >= q.max_leased then 'max_leased'
        when
            n.credit / n.job_cost
            + greatest(extract(epoch from c.now_at - n.refilled_at), 0)
            * q.rate_limit / extract(epoch from q.rate_interval) < 1
            then 'rate_limit'
    end as held_by,
    case
        when v.queue_id is not null then coalesce(s.unfinished >= q.max_unfinished, false)
    end as is_full
from pgq._visible_queues(
    (select k.key from pgq.view_key as k), current_user, 'monitor'
) as v
inner join pgq.queue as q on q.queue_id = v.queue_id
cross join lateral (select pgq._clock() as now_at limit 1) as c
-- BETWEEN is an equality that is estimated without statistics: with `=`, if nearly all jobs
-- belonged to one queue, the planner would read the whole table for each of the others.
cross join lateral (
    select
        sum(j.jobs) filter (where not e.expired and j.visible_at <= c.now_at) as ready,
        sum(j.jobs) filter (where j.visible_at > c.now_at and j.lease_token is not null) as leased,
        sum(j.jobs) filter (
            where not e.expired and j.visible_at > c.now_at and j.lease_token is null
            and j.due_at is null
        ) as delayed,
        sum(j.jobs) filter (where not e.expired and j.due_at is not null) as waiting,
        sum(j.jobs) filter (
            where e.expired and not (j.visible_at > c.now_at and j.lease_token is not null)
        ) as expired,
        min(j.visible_at) filter (where not e.expired and j.visible_at <= c.now_at) as oldest,
        count(*) filter (where not j.is_extent) as unfinished
    from (
        select k.visible_at, k.expires_at, k.lease_token, k.due_at, 1 as jobs, false as is_extent
        from pgq.job as k
        where k.queue_id between q.queue_id and q.queue_id
        union all
        select
            r.visible_at,
            r.expires_at,
            null as lease_token,
            null as due_at,
            r.jobs,
            true as is_extent
        from pgq.job_extent as r
        where r.queue_id between q.queue_id and q.queue_id
        limit nullif(current_setting('pgq.count_at_most', true), '')::bigint
    ) as j
    cross join lateral (
        select coalesce(j.expires_at <= c.now_at, false) as expired
    ) as e
) as s
left join lateral (
    select l.job_cost, l.credit, l.refilled_at
    from pgq.claim_count as l
    where l.queue_id = q.queue_id
    order by l.seq desc
    limit 1
) as n on true;

comment on view pgq.queue_stats is 'Number of jobs of each queue, by state.';
comment on column pgq.queue_stats.queue is 'Queue name.';
comment on column pgq.queue_stats.ready is
'Jobs that are due, also while the queue is paused, and jobs that lost their worker on the last
attempt, until they become dead letters.';
comment on column pgq.queue_stats.leased is 'Jobs that are leased to a worker.';
comment on column pgq.queue_stats.delayed is 'Jobs that are not due yet.';
comment on column pgq.queue_stats.expired is
'Jobs past the job_ttl of their queue, until cleanup removes them.';
comment on column pgq.queue_stats.dead is 'Dead letters.';
comment on column pgq.queue_stats.oldest_ready_at is
'The earliest due time of a job that is due; null: none is due.';
comment on column pgq.queue_stats.paused is
'Whether the queue is paused, so that claims return no jobs.';
comment on column pgq.queue_stats.waiting is
'Jobs blocked by other jobs of their key: in an ordered queue, or because a claim found them while
their key was at its max_leased_per_key.';
comment on column pgq.queue_stats.held_by is
'Why claims return no jobs now, even if some are due: paused, max_leased or rate_limit; null: no
such reason.';
comment on column pgq.queue_stats.is_full is
'Whether the number of unfinished jobs has reached max_unfinished, so that enqueue fails. Expired
jobs count here until cleanup has removed them; enqueue does not count them.';

create view pgq.dead_letters
with (security_barrier) as
select
    v.queue collate "C" as queue,
    case when v.queue_id is not null then d.job_id end as job_id,
    case when v.queue_id is not null then d.attempt end as attempt,
    case when v.queue_id is not null then d.last_error end as last_error,
    case when v.queue_id is not null then m.published_at end as enqueued_at,
    case when v.queue_id is not null then d.died_at end as died_at,
    case when v.queue_id is not null then d.priority::integer end as priority,
    case when v.queue_id is not null then m.key end as key,
    case when v.queue_id is not null then d.label end as label,
    case when v.queue_id is not null then m.headers end as headers,
    case when v.queue_id is not null then m.payload end as payload,
    case when v.queue_id is not null then m.body end as body,
    case when v.queue_id is not null then d.stops_key end as stops_key
from pgq._visible_queues(
    (select k.key from pgq.view_key as k), current_user, 'consume'
) as v
inner join pgq.dead_job as d on d.queue_id = v.queue_id
left join pgq.message as m
    on m.segment = d.segment
    and m.partition_id = d.partition_id
    and m.log_offset = d.log_offset;

comment on view pgq.dead_letters is
'Jobs that used up their attempts, or that were rejected.
pgq.redrive puts them back, pgq.purge_queue removes them.';
comment on column pgq.dead_letters.queue is 'Queue name.';
comment on column pgq.dead_letters.job_id is 'Job id.';
comment on column pgq.dead_letters.attempt is 'Number of attempts.';
comment on column pgq.dead_letters.last_error is
'Error of the last nack or reject_job; if the lease of the last attempt ran out, a line says so.';
comment on column pgq.dead_letters.enqueued_at is 'When it was enqueued.';
comment on column pgq.dead_letters.died_at is 'When it became a dead letter.';
comment on column pgq.dead_letters.priority is '0 (first) to 9 (last).';
comment on column pgq.dead_letters.key is 'Key; null: none.';
comment on column pgq.dead_letters.label is 'Label; null: none.';
comment on column pgq.dead_letters.headers is 'Headers, a JSON object; null: none.';
comment on column pgq.dead_letters.payload is 'Content as JSON; null if it has a body.';
comment on column pgq.dead_letters.body is 'Content as raw bytes; null if it has a payload.';
comment on column pgq.dead_letters.stops_key is
'Whether the other jobs of its key are blocked until it is redriven or removed; see create_queue.';

create view pgq.archived_jobs
with (security_barrier) as
select
    v.queue collate "C" as queue,
    case when v.queue_id is not null then a.job_id end as job_id,
    case when v.queue_id is not null then a.outcome end as outcome,
    case when v.queue_id is not null then a.attempt end as attempt,
    case when v.queue_id is not null then m.published_at end as enqueued_at,
    case when v.queue_id is not null then a.ended_at end as ended_at,
    case when v.queue_id is not null then a.result end as result,
    case when v.queue_id is not null then a.last_error end as last_error,
    case when v.queue_id is not null then m.key end as key,
    case when v.queue_id is not null then a.label end as label,
    case when v.queue_id is not null then m.headers end as headers,
    case when v.queue_id is not null then m.payload end as payload,
    case when v.queue_id is not null then m.body end as body
from pgq._visible_queues(
    (select k.key from pgq.view_key as k), current_user, 'consume'
) as v
inner join pgq.queue as q on q.queue_id = v.queue_id
inner join pgq.job_archive as a on a.queue_id = v.queue_id
left join pgq.message as m
    on m.segment = a.segment
    and m.partition_id = coalesce(a.partition_id, q.partition_id)
    and m.log_offset = coalesce(a.log_offset, a.job_id);

comment on view pgq.archived_jobs is
'Jobs that were finished or cancelled or have expired.
They are kept for the retention of their queue, counted from the enqueue.';
comment on column pgq.archived_jobs.queue is 'Queue name.';
comment on column pgq.archived_jobs.job_id is 'Job id.';
comment on column pgq.archived_jobs.outcome is
'acked, expired, cancelled, or the outcome given to archive_job.';
comment on column pgq.archived_jobs.attempt is 'Number of attempts.';
comment on column pgq.archived_jobs.enqueued_at is 'When it was enqueued.';
comment on column pgq.archived_jobs.ended_at is 'When it was finished or cancelled, or expired.';
comment on column pgq.archived_jobs.result is 'The result given to archive_job; null: none.';
comment on column pgq.archived_jobs.last_error is 'Error of the last failed attempt; null: none.';
comment on column pgq.archived_jobs.key is 'Key; null: none.';
comment on column pgq.archived_jobs.label is 'Label; null: none.';
comment on column pgq.archived_jobs.headers is 'Headers, a JSON object; null: none.';
comment on column pgq.archived_jobs.payload is 'Content as JSON; null if it had a body.';
comment on column pgq.archived_jobs.body is 'Content as raw bytes; null if it had a payload.';
