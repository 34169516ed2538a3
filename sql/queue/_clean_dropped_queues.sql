create function pgq._clean_dropped_queues(relation text, max_rows integer)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    removed integer;
begin
    -- Loose index scan: one probe per queue_id instead of all rows. Descending, to reach the newest
    -- row of a queue before the dead index entries of its older ones.
    execute format(
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

        delete from pgq.%1$I as r
        where r.ctid = any(array(
            select n.ctid
            from having_rows as h
            inner join pgq.%1$I as n on n.queue_id = h.queue_id
            where not exists (select from pgq.queue as q where q.queue_id = h.queue_id)
            limit $1
        ))',
        relation
    )
    using max_rows;
    get diagnostics removed = row_count;
    return removed >= max_rows;
end
$$;

comment on function pgq._clean_dropped_queues(text, integer) is
'Deletes rows of dropped queues from a table, max_rows at most; returns whether there may be more.';
