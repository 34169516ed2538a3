create function pgq._open_segment_of(storage_class_id bigint)
returns integer
language sql
stable
parallel safe
as $$
select s.segment
from pgq.segment as s
where s.storage_class_id = _open_segment_of.storage_class_id
    and s.state = 'open'
$$;

comment on function pgq._open_segment_of(bigint) is
'The segment that a storage class writes to now.';
