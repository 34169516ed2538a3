-- A reader of a view needs EXECUTE on its functions, but no rights on its tables:
-- see queue/views.sql.
-- The linter cannot lay out lateral joins.
-- noqa: disable=AM09,LT02,LT09,LT14,ST05,ST09

create view pgq.effects
with (security_barrier) as
select
    v.queue collate "C" as queue,
    case when v.queue_id is not null then e.job_id end as job_id,
    case when v.queue_id is not null then e.effect end as effect,
    case
        when v.queue_id is null then null
        when e.finished_at is not null then 'finished'
        when j.lease_token = e.lease_token and j.visible_at > c.now_at then 'begun'
        else 'interrupted'
    end as state,
    case when v.queue_id is not null then e.result end as result,
    case when v.queue_id is not null then e.attempt end as attempt,
    case when v.queue_id is not null then e.begun_at end as begun_at,
    case when v.queue_id is not null then e.finished_at end as finished_at,
    case when v.queue_id is not null then e.lease_token end as lease_token
from pgq.effect as e
cross join lateral (select pgq._clock() as now_at limit 1) as c
left join pgq.job as j on j.job_id = e.job_id
left join pgq.dead_job as d on d.job_id = e.job_id
inner join pgq._visible_queues(
    (select k.key from pgq.view_key as k), current_user, 'consume'
) as v
    on v.queue_id = coalesce(j.queue_id, d.queue_id);

comment on view pgq.effects is
'Effects of jobs that must happen once, for jobs that are unfinished or dead; see begin_effect.';
comment on column pgq.effects.queue is 'Queue name.';
comment on column pgq.effects.job_id is 'Job id.';
comment on column pgq.effects.effect is 'Name of the effect.';
comment on column pgq.effects.state is
'begun: its worker may run it; finished: it has happened; interrupted: its worker has lost the job
or given it back, and it may have happened or not.';
comment on column pgq.effects.result is 'The result given to finish_effect; null: none.';
comment on column pgq.effects.attempt is 'The attempt of the job that began it.';
comment on column pgq.effects.begun_at is 'When it was begun.';
comment on column pgq.effects.finished_at is
'When it was recorded as finished; null: not recorded.';
comment on column pgq.effects.lease_token is
'Token to pass to finish_effect or delete_effect, to record the outcome.';
