create function pgq._clean_writes(objects int8multirange, now_at timestamptz)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    -- Limit per kind and call; the next call continues.
    most constant integer := 1000;
    room integer;
    seen integer := 0;
    forgotten integer := 0;
    removed integer;
    more boolean;
    target record;
begin
    -- Expired writes that were never committed. The timeout starts again with each staged task.
    for target in
        select w.*
        from pgq.bulk_write as w
        where w.committed_at is null and w.expires_at <= now_at and w.bulk_write_id <@ objects
            and not exists (
                select
                from pgq.staged_task as k
                where k.write_id = w.write_id and k.staged_at + (w.expires_at - w.begun_at) > now_at
            )
        order by w.expires_at
        limit most
        for update skip locked
    loop
        seen := seen + 1;
        continue when not pgq._delete_write(target.bulk_write_id);

        forgotten := forgotten + 1;
        return next row('bulk write forgotten', target.write_id::text, 1)::pgq.cleanup_action;
    end loop;
    -- Report more only after progress: if all candidates are locked, the next call would find the
    -- same ones.
    more := seen = most and forgotten > 0;

    seen := 0;
    forgotten := 0;
    for target in
        select w.*
        from pgq._dropped_targets() as d
        cross join lateral (
            select o.*
            from pgq.bulk_write as o
            where coalesce(o.topic_id, 0) = d.topic_id
                and coalesce(o.queue_id, 0) = d.queue_id
                and o.bulk_write_id <@ objects
            limit most
        ) as w
        limit most
    loop
        seen := seen + 1;
        continue when not pgq._delete_write(target.bulk_write_id);

        forgotten := forgotten + 1;
        if target.committed_at is null then
            return next row('bulk write forgotten', target.write_id::text, 1)::pgq.cleanup_action;
        end if;
    end loop;
    more := more or seen = most and forgotten > 0;

    -- 0 stands for what belongs to no write any more.
    delete from pgq.bulk_producer as p
    where 0::bigint <@ objects
        and not exists (select from pgq.topic as t where t.topic_id = p.topic_id)
        and not exists (select from pgq.queue as q where q.queue_id = p.queue_id);

    -- Unnamed writes cannot be begun again; keep them for one day, for a repeated commit_write.
    delete from pgq.bulk_write as w
    where w.bulk_write_id = any(
        array(
            select o.bulk_write_id
            from pgq.bulk_write as o
            where o.producer is null
                and o.committed_at <= now_at - interval '1 day'
                and o.bulk_write_id <@ objects
            order by o.committed_at
            limit most
            for update skip locked
        )
    );
    get diagnostics removed = row_count;
    more := more or removed = most;

    -- Remains of writes that have ended, unless a chunk is still open.
    room := most;
    for target in
        select s.write_id
        from pgq.staged_write as s
        where 0::bigint <@ objects
            and not exists (
                select
                from pgq.bulk_write as w
                where w.write_id = s.write_id and w.committed_at is null
            )
    loop
        removed := pgq._delete_chunks(target.write_id, null, room);
        continue when removed is null;
        room := room - removed;
        exit when room = 0;
        return next row('staged write removed', target.write_id::text, 1)::pgq.cleanup_action;
    end loop;
    more := more or room = 0;

    room := most;
    for target in
        select g.bulk_write_id
        from pgq.published_write as g
        where g.bulk_write_id <@ objects
            and not exists (
                select
                from pgq.bulk_write as w
                where w.bulk_write_id = g.bulk_write_id and w.committed_at is null
            )
    loop
        room := room - coalesce(pgq._delete_chunks(null, target.bulk_write_id, room), 0);
        exit when room = 0;
    end loop;

    if more or room = 0 then
        return next row('more', 'writes', 1)::pgq.cleanup_action;
    end if;
end
$$;

comment on function pgq._clean_writes(int8multirange, timestamptz) is
'The part of cleanup that forgets those of these bulk writes that were abandoned, and removes what
is left of ended ones; the objects with 0 include what belongs to no write any more.
It skips locked rows, and removes at most 1000 of each kind.';
