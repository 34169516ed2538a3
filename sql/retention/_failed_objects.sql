create function pgq._failed_objects(part text)
returns int8multirange
language sql stable parallel safe
as $$
select coalesce(range_agg(int8range(f.object, f.object, '[]')), '{}')
from pgq.cleanup_failure as f
where f.part = _failed_objects.part and f.object is not null
$$;

comment on function pgq._failed_objects(text) is
'The objects for which a part of cleanup stands as failed.';
