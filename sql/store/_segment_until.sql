create function pgq._segment_until(class pgq.storage_class)
returns timestamptz
language sql stable parallel safe
as $$
select
    case
        when (_segment_until.class).max_bytes is not null then '-infinity'
        when (_segment_until.class).retention is null then 'infinity'
        else s.opened_at + (_segment_until.class).retention / 3
    end
from pgq.segment as s
where s.segment = (_segment_until.class).segment
$$;

comment on function pgq._segment_until(pgq.storage_class) is
'Until when a storage class is sure to write to its open segment: the segment does not age out
before. A class with a size limit may move to the next one at any time (-infinity).';
