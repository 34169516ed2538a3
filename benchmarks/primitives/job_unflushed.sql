-- As job.sql, without waiting for the flush.
begin;
select taken.id, taken.payload
from
    set_config('synchronous_commit', 'off', true),
    lateral (
        select id, payload from queue
        order by id
        limit 1
        for update skip locked
    ) as taken \gset
with done as (
    delete from queue
    where id = :id
    returning id, payload, created_at
)
insert into queue_archive (id, payload, created_at)
select id, payload, created_at from done;
commit;
