create function pgq._void_leftovers()
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target pgq.leftover;
begin
    for target in
        select o.*
        from pgq.leftover as o
        inner join pgq.segment_range as r
            on r.stored_partition_id = o.partition_id
            and r.segment = o.segment
            and r.first_offset - r.shift = o.first_offset
        inner join pgq.partition as p on p.partition_id = r.partition_id
        inner join pgq.topic as t on t.topic_id = p.topic_id
        inner join pgq.storage_class as c on c.storage_class_id = t.storage_class_id
        where c.retention is null
        for update of o skip locked
    loop
        -- A new statement: before the lock, the topic may have got a retention again, or another
        -- cleanup may have hidden this.
        delete from pgq.leftover as o
        where o.partition_id = target.partition_id
            and o.segment = target.segment
            and o.first_offset = target.first_offset
            and exists (
                select
                from pgq.segment_range as r
                inner join pgq.partition as p on p.partition_id = r.partition_id
                inner join pgq.topic as t on t.topic_id = p.topic_id
                inner join pgq.storage_class as c on c.storage_class_id = t.storage_class_id
                where r.stored_partition_id = o.partition_id
                    and r.segment = o.segment
                    and r.first_offset - r.shift = o.first_offset
                    and c.retention is null
            );
    end loop;
end
$$;

comment on function pgq._void_leftovers() is
'Takes back what alter_topic could not when a topic lost its retention: notes that a partition left
in a transaction that was still open, or that is younger than the snapshot of that call.';
