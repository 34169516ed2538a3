create function pgq._clean_positions()
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    return query
    with trimmed as (
        delete from pgq.group_position as j
        using pgq.group_partition as l
        where j.group_id = l.group_id
            and j.partition = l.partition
            and j.seq < (
                select k.seq - 1000
                from pgq.group_position as k
                where k.group_id = l.group_id
                    and k.partition = l.partition
                order by k.seq desc
                limit 1
            )
        returning j.group_id
    )

    select 'positions trimmed', t.topic || '/' || g.consumer_group, count(*)
    from trimmed as r
    inner join pgq.consumer_group as g on g.group_id = r.group_id
    inner join pgq.topic as t on t.topic_id = g.topic_id
    group by t.topic, g.consumer_group;
end
$$;

comment on function pgq._clean_positions() is
'The part of cleanup that trims the journals of positions; each keeps its last 1000 rows.';
