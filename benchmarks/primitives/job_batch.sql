-- :batch jobs in one transaction; all payloads are sent to the worker, as one value.
begin;
select array_agg(taken.id) as ids, string_agg(taken.payload, '') as payloads
from (
    select id, payload from queue
    order by id
    limit :batch::integer
    for update skip locked
) as taken \gset
with done as (
    delete from queue
    where id = any(:ids::bigint[])
    returning id, payload, created_at
)
insert into queue_archive (id, payload, created_at)
select id, payload, created_at from done;
commit;
