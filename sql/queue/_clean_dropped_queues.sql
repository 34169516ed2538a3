create function pgq._clean_dropped_queues(relation text, objects int8multirange, max_rows integer)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    removed integer;
begin
    execute format(
        'delete from pgq.%1$I as r
        where r.ctid = any(array(
            select n.ctid
            from pgq._queues_in(%1$L) as h (queue_id)
            inner join pgq.%1$I as n on n.queue_id = h.queue_id
            where h.queue_id <@ $1
                and not exists (select from pgq.queue as q where q.queue_id = h.queue_id)
            limit $2
        ))',
        relation
    )
    using objects, max_rows;
    get diagnostics removed = row_count;
    return removed >= max_rows;
end
$$;

comment on function pgq._clean_dropped_queues(text, int8multirange, integer) is
'Deletes rows of dropped queues, of these alone, from a table, max_rows at most; returns whether
there may be more.';
