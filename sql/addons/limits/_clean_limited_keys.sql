create function pgq._clean_limited_keys(objects int8multirange, max_rows integer)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
    changed integer;
    there boolean;
    unfinished boolean := false;
begin
    for target in
        select h.queue_id, q.max_leased_per_key
        from (
            select k.queue_id from pgq._queues_in('limited_key') as k (queue_id)
            union
            select n.queue_id from pgq._queues_in('key_wakeup') as n (queue_id)
        ) as h
        left join pgq.queue as q on q.queue_id = h.queue_id
        where q.ordered is not true and h.queue_id <@ objects
        order by h.queue_id
    loop
        if target.max_leased_per_key is not null then
            -- Claims process wake-up records that are due. One dated more than 2 minutes ahead is
            -- from before the clock was set back.
            continue when not exists (
                select
                from pgq.key_wakeup as n
                where n.queue_id = target.queue_id
                    and n.look_at > pgq._clock() + interval '2 minutes'
            );
            perform
            from pgq.claim_lock as l
            where l.queue_id = target.queue_id
            for update skip locked;
            if found then
                changed := pgq._unblock_keys(
                    target.queue_id, target.max_leased_per_key, pgq._clock() + interval '2 minutes',
                    'infinity', pgq._clock(), max_rows
                );
                unfinished := unfinished or changed = max_rows;
            end if;
            continue;
        end if;

        -- The queue was dropped or has no limit any more. The share lock keeps it so.
        perform
        from pgq.queue as q
        where q.queue_id = target.queue_id and q.max_leased_per_key is null
        for share skip locked;
        there := found;
        continue when not there
            and exists (select from pgq.queue as q where q.queue_id = target.queue_id);

        if there then
            changed := pgq._unblock_all(target.queue_id, max_rows);
            unfinished := unfinished or changed = max_rows;
        end if;

        delete from pgq.limited_key as k where k.queue_id = target.queue_id;
        delete from pgq.key_wakeup as n
        where n.queue_id = target.queue_id and not pgq._has_blocked(target.queue_id);
    end loop;

    return unfinished;
end
$$;

comment on function pgq._clean_limited_keys(int8multirange, integer) is
'Repairs keys of these queues with max_leased_per_key after the clock was set back, and deletes
those of queues that were dropped or have no such limit any more. Part of cleanup.
Handles at most max_rows jobs of each queue; returns whether there may be more.';
