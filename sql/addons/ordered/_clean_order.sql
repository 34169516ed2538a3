create function pgq._clean_order(objects int8multirange, max_rows integer)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    target bigint;
    processed integer;
    dropped bigint[];
    removed integer;
    unfinished boolean := false;
begin
    -- Needed for queues without claims, and after the clock was set back.
    for target in
        select q.queue_id
        from pgq.queue as q
        where q.ordered and q.queue_id <@ objects
        order by q.queue_id
    loop
        processed := pgq._process_wakeups(target, '-infinity', 'infinity', max_rows);
        unfinished := unfinished or processed = max_rows;
    end loop;

    -- Keys that were locked when their queue was dropped, or inserted after that.
    dropped := array(
        select k.queue_id from pgq._queues_in('ordered_key') as k (queue_id)
        union
        select n.queue_id from pgq._queues_in('key_wakeup') as n (queue_id)
        except
        select q.queue_id from pgq.queue as q
    );

    foreach target in array dropped loop
        continue when not target <@ objects;

        delete from pgq.key_wakeup as n where n.queue_id = target;

        delete from pgq.ordered_key as k
        where k.queue_id = target
            and k.ordered_key = any(array(
                select l.ordered_key
                from pgq.ordered_key as l
                where l.queue_id = target
                limit max_rows
                for update skip locked
            ));
        get diagnostics removed = row_count;
        unfinished := unfinished or removed = max_rows;
    end loop;

    return unfinished;
end
$$;

comment on function pgq._clean_order(int8multirange, integer) is
'Processes wake-up records of these ordered queues, which unblocks the next jobs of their keys, and
deletes the keys of those that were dropped. Part of cleanup.
Handles at most max_rows of each; returns whether there may be more.';
