create function pgq._clean_writes(moment timestamptz)
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    -- One call does so much of each; the next one goes on.
    most constant integer := 1000;
    room integer;
    removed integer;
    target record;
begin
    -- Given up: nobody came to commit them, or there is nothing left to write to.
    for target in
        select w.bulk_write_id, w.write_id
        from pgq.bulk_write as w
        where w.committed_at is null
            and w.expires_at <= _clean_writes.moment
        order by w.expires_at
        limit most
        for update skip locked
    loop
        if pgq._forget_write(target.bulk_write_id) then
            return next row(
                'bulk write forgotten', target.write_id::text, 1
            )::pgq.cleanup_action;
        end if;
    end loop;

    for target in
        select w.bulk_write_id, w.write_id
        from pgq._dropped_targets() as d
        cross join lateral (
            select o.bulk_write_id, o.write_id
            from pgq.bulk_write as o
            where coalesce(o.topic_id, 0) = d.topic_id
                and coalesce(o.queue_id, 0) = d.queue_id
            limit most
        ) as w
        limit most
    loop
        if pgq._forget_write(target.bulk_write_id) then
            return next row(
                'bulk write forgotten', target.write_id::text, 1
            )::pgq.cleanup_action;
        end if;
    end loop;

    delete from pgq.bulk_producer as p
    where not exists (
        select
        from pgq.topic as t
        where t.topic_id = p.topic_id
    )
        and not exists (
            select
            from pgq.queue as q
            where q.queue_id = p.queue_id
        );

    -- Writes that no producer can ask for again are kept a day, for a repeated commit_write.
    delete from pgq.bulk_write as w
    where w.bulk_write_id = any(
        array(
            select o.bulk_write_id
            from pgq.bulk_write as o
            where o.producer is null
                and o.committed_at <= _clean_writes.moment - interval '1 day'
            order by o.committed_at
            limit most
            for update skip locked
        )
    );

    -- What is left of writes that have ended, where no chunk is open.
    room := most;
    for target in
        select s.write_id
        from pgq.staged_write as s
        where not exists (
            select
            from pgq.bulk_write as w
            where w.write_id = s.write_id
                and w.committed_at is null
        )
    loop
        removed := pgq._forget_staged(target.write_id, room);
        room := room - coalesce(removed, 0);

        if room > 0 and removed is not null then
            return next row(
                'staged write removed', target.write_id::text, 1
            )::pgq.cleanup_action;
        end if;
        if room = 0 then
            return next row('more', 'writes', 1)::pgq.cleanup_action;
            exit;
        end if;
    end loop;

    room := most;
    for target in
        select g.bulk_write_id
        from pgq.published_write as g
        where not exists (
            select
            from pgq.bulk_write as w
            where w.bulk_write_id = g.bulk_write_id
                and w.committed_at is null
        )
    loop
        removed := pgq._forget_published(target.bulk_write_id, room);
        room := room - coalesce(removed, 0);
        if room = 0 then
            return next row('more', 'writes', 1)::pgq.cleanup_action;
            exit;
        end if;
    end loop;
end
$$;

comment on function pgq._clean_writes(timestamptz) is
'The part of cleanup that forgets bulk writes nobody commits, and what was staged for them.
It waits for nobody, and removes 1000 of a kind at most.';
