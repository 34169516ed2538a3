-- The segment that the carried jobs were written to: storage class and number.
select s.storage_class_id, s.segment
from pgq.segment as s
where s.segment in (
    select j.segment
    from pgq.job as j
    inner join pgq.queue as q on q.queue_id = j.queue_id
    where q.queue = 'carried'
);
