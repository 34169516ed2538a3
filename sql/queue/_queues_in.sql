create function pgq._queues_in(relation text)
returns setof bigint
language plpgsql volatile parallel unsafe rows 100
as $$
begin
    -- Loose index scan: one probe per queue_id instead of all rows. Descending, to reach the newest
    -- row of a queue before the dead index entries of its older ones.
    return query execute format(
        'with recursive having_rows as (
            (select r.queue_id from pgq.%1$I as r order by r.queue_id desc limit 1)
            union all
            select (
                select r.queue_id
                from pgq.%1$I as r
                where r.queue_id < h.queue_id
                order by r.queue_id desc
                limit 1
            )
            from having_rows as h
            where h.queue_id is not null
        )

        select h.queue_id from having_rows as h where h.queue_id is not null',
        relation
    );
end
$$;

comment on function pgq._queues_in(text) is
'Returns the ids of the queues that have rows in a table, dropped queues included.';
