create function pgq._assign_staged(objects int8multirange)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
    full_ones boolean := false;
begin
    for target in
        select
            t.topic, sum(r.last_offset - r.first_offset + 1)::bigint as amount,
            bool_or(r.last_offset - r.first_offset + 1 = 1000000) as full
        from pgq.topic as t
        cross join lateral pgq._assign_all(t.topic, null, 1000000) as r
        where t.deferred and t.topic_id <@ objects
        group by t.topic
        order by t.topic
    loop
        full_ones := full_ones or target.full;
        return next row('offsets assigned', target.topic, target.amount)::pgq.cleanup_action;
    end loop;

    if full_ones then
        return next row('more', 'offsets', 1)::pgq.cleanup_action;
    end if;
end
$$;

comment on function pgq._assign_staged(int8multirange) is
'Step of cleanup: assigns offsets to staged messages of these topics that have not been consumed
yet, so that their segment can be closed and retention applies to them.';
