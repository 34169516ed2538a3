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
    -- Given up: nobody came to commit them.
    for target in
        select w.*
        from pgq.bulk_write as w
        where w.committed_at is null
            and w.expires_at <= _clean_writes.moment
        for update skip locked
    loop
        delete from pgq.bulk_write as w
        where w.bulk_write_id = target.bulk_write_id;

        return next row('bulk write forgotten', target.write_id::text, 1)::pgq.cleanup_report;
    end loop;

    -- Writes that no producer can ask for again are kept a day, for a repeated commit_write.
    delete from pgq.bulk_write as w
    where w.producer is null
        and w.committed_at <= _clean_writes.moment - interval '1 day';

    -- What writers staged who did not know yet that their write had ended.
    for lost in
        select distinct k.write_id
        from pgq.staged_task as k
        where not exists (
            select
            from pgq.bulk_write as w
            where w.write_id = k.write_id
                and w.committed_at is null
        )
    loop
        perform pgq._forget_staged(lost);

        return next row('staged write removed', lost::text, 1)::pgq.cleanup_report;
    end loop;
end
$$;

comment on function pgq._clean_writes(timestamptz) is
'The part of cleanup that forgets bulk writes nobody commits, and removes what was staged for them.';
