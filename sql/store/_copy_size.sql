create function pgq._copy_size(
    from_segment integer, from_id bigint, to_segment integer, to_id bigint
)
returns void
language sql volatile parallel unsafe
as $$
select pgq._note_size(to_segment, to_id, max(s.bytes))
from pgq.size_bound as s
where s.segment = from_segment and (from_id is null or s.partition_id = from_id)
having count(*) > 0
$$;

comment on function pgq._copy_size(integer, bigint, integer, bigint) is
'Notes the sizes of stored messages for the place where they are copied; from_id null: those of the
whole segment.';
