create function pgq._note_size(segment integer, partition_id bigint, bytes bigint)
returns void
language sql volatile parallel unsafe
as $$
-- Without a unique index no transaction waits for another. Two rows do no harm.
insert into pgq.size_bound (segment, partition_id, bytes)
select _note_size.segment, _note_size.partition_id, n.bytes
from (select power(2, ceil(log(2, greatest(_note_size.bytes, 1))))::bigint as bytes) as n
where _note_size.bytes > 32768
    and not exists (
        select
        from pgq.size_bound as s
        where s.segment = _note_size.segment
            and s.partition_id = _note_size.partition_id and s.bytes >= n.bytes
    )
$$;

comment on function pgq._note_size(integer, bigint, bigint) is
'Raises the size_bound of a partition_id in a segment, where the caller stores a message of this
size.';
