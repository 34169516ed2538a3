create function pgq._clean_writes(moment timestamptz)
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target pgq.bulk_write;
    lost uuid;
begin
    -- Given up: nobody came to commit them, or there is nothing left to write to.
    for target in
        select w.*
        from pgq.bulk_write as w
        where w.committed_at is null
            and (
                w.expires_at <= _clean_writes.moment
                or not exists (
                    select
                    from pgq.topic as t
                    where t.topic_id = w.topic_id
                )
                and not exists (
                    select
                    from pgq.queue as q
                    where q.queue_id = w.queue_id
                )
            )
        for update of w skip locked
    loop
        delete from pgq.bulk_write as w
        where w.bulk_write_id = target.bulk_write_id;

        return next row('bulk write forgotten', target.write_id::text, 1)::pgq.cleanup_report;
    end loop;

    -- Writes that no producer can ask for again are kept a day, for a repeated commit_write.
    delete from pgq.bulk_write as w
    where w.producer is null
        and w.committed_at <= _clean_writes.moment - interval '1 day'
        or w.committed_at is not null
        and not exists (
            select
            from pgq.topic as t
            where t.topic_id = w.topic_id
        )
        and not exists (
            select
            from pgq.queue as q
            where q.queue_id = w.queue_id
        );

    -- What writers staged who did not know yet that their write had ended.
    for lost in
        select s.write_id
        from (
            select m.write_id from pgq.staged_write as m
            union
            select k.write_id from pgq.staged_task as k
            union
            select c.write_id from pgq.staged_chunk as c
        ) as s
        where not exists (
            select
            from pgq.bulk_write as w
            where w.write_id = s.write_id
                and w.committed_at is null
        )
    loop
        perform pgq._forget_staged(lost);

        return next row('staged write removed', lost::text, 1)::pgq.cleanup_report;
    end loop;
end
$$;

comment on function pgq._clean_writes(timestamptz) is
'The part of cleanup that forgets bulk writes nobody commits, and what was staged for them.';
