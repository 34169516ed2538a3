create function pgq._hold_staged(target pgq.bulk_write)
returns pgq._ended_job[]
language plpgsql volatile parallel unsafe
as $$
declare
    held record;
begin
    if not exists (
        select
        from pgq.queue as q
        where q.ordered
            and q.queue_id in (
                select target.queue_id
                union all
                select s.queue_id from pgq.subscription as s where s.topic_id = target.topic_id
            )
    ) then
        return '{}';
    end if;

    select array_agg(m.key) as keys, array_agg(m.headers) as headers
    into held
    from (
        select unnest(c.keys) as key, unnest(c.headers) as headers
        from pgq.staged_chunk as c
        where c.write_id = target.write_id
        union all
        select r.key, r.headers
        from pgq._keys_of_extents(target.write_id) as r
    ) as m
    where m.key is not null;

    if target.queue_id is not null then
        return pgq._hold_keys(target.queue_id, held.keys);
    end if;
    return pgq._hold_followed(target.topic_id, held.keys, held.headers);
end
$$;

comment on function pgq._hold_staged(pgq.bulk_write) is
'Like _hold_keys, for the jobs of an atomic write to an ordered queue, or to a topic to which
ordered queues are subscribed.';
