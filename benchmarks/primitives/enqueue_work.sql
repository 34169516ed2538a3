-- One job, and then the oldest one is taken, deleted and archived.
insert into queue (payload) values (:body::bytea);
begin;
select id, payload from queue
order by id
limit 1
for update skip locked \gset
with done as (
    delete from queue
    where id = :id
    returning id, payload, created_at
)
insert into queue_archive (id, payload, created_at)
select id, payload, created_at from done;
commit;
