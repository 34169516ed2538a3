create function pgq._clean_dropped_queues(relation text, max_rows integer)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    removed integer;
begin
    -- The ids of queues that have rows are found one after the other, without a look at all rows.
    -- From behind: there a queue has its newest row, before what older ones left in the index.
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
'Removes rows of queues that are no more from a table, so many at most, and says whether there are
more.';
