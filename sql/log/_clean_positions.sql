create function pgq._clean_positions(objects int8multirange)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
    trimmed bigint;
    budget bigint := 20000;
    keep_from bigint;
begin
    for target in
        select
            l.group_id, l.partition, l.topic, l.consumer_group, s.seq as first_seq,
            e.seq - 1000 as keep_from
        from pgq.group_partition as l
        cross join lateral pgq._current_position(l.group_id, l.partition) as e
        cross join lateral (
            select k.seq
            from pgq.group_position as k
            where k.group_id = l.group_id and k.partition = l.partition and k.seq >= l.trimmed_seq
            order by k.seq
            limit 1
        ) as s
        where s.seq < e.seq - 1000 and l.group_id <@ objects
    loop
        -- SKIP LOCKED: do not wait for a member. The update below makes a member whose snapshot is
        -- older than the trim fail with 40001.
        perform
        from pgq.group_partition as l
        where l.group_id = target.group_id and l.partition = target.partition
        for no key update skip locked;
        continue when not found;

        -- seq has no gaps, so this limits the number of rows to delete.
        keep_from := least(target.keep_from, target.first_seq + budget);

        update pgq.group_partition as l
        set trimmed_seq = greatest(l.trimmed_seq, keep_from)
        where l.group_id = target.group_id and l.partition = target.partition;

        delete from pgq.group_position as j
        where j.group_id = target.group_id and j.partition = target.partition and j.seq < keep_from;
        get diagnostics trimmed = row_count;

        budget := budget - trimmed;
        return next row(
            'positions trimmed', target.topic || '/' || target.consumer_group, trimmed
        )::pgq.cleanup_action;

        if budget <= 0 then
            return next row('more', 'positions', 1)::pgq.cleanup_action;
            exit;
        end if;
    end loop;
end
$$;

comment on function pgq._clean_positions(int8multirange) is
'Step of cleanup: trims the journals of positions of these groups to their last 1000 rows each;
removes at most 20000 rows.';
