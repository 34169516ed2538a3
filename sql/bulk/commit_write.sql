create function pgq.commit_write(write_id uuid, expected_messages bigint default null)
returns pgq.bulk_write_state
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set lock_timeout = '60s'
as $$
#variable_conflict use_column
declare
    target pgq.bulk_write;
    is_marked boolean;
    total bigint;
begin
    -- An old snapshot would not show all that was staged, and the rest would be lost.
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        raise exception 'commit_write needs READ COMMITTED'
            using errcode = '25001',
                hint = 'Call it in a transaction of that isolation level.';
    end if;

    select w.*
    into target
    from pgq.bulk_write as w
    where w.write_id = commit_write.write_id;

    if target.bulk_write_id is null then
        perform pgq._fail_write_lost(commit_write.write_id, null);
    end if;

    -- The mark first: chunks that are open hold it, and while they are waited for, begin_write and
    -- abort_write can have the row of the write.
    if target.committed_at is null then
        if target.atomic then
            perform
            from pgq.staged_write as s
            where s.write_id = target.write_id
            for update;
        else
            perform
            from pgq.published_write as g
            where g.bulk_write_id = target.bulk_write_id
            for update;
        end if;
        is_marked := found;

        select w.*
        into target
        from pgq.bulk_write as w
        where w.write_id = commit_write.write_id
        for update;

        if target.bulk_write_id is null then
            perform pgq._fail_write_lost(
                commit_write.write_id, 'It was started again, aborted or forgotten meanwhile.'
            );
        end if;
    end if;

    if target.committed_at is not null then
        return row(target.write_id, target.messages, target.committed_at, true)
            ::pgq.bulk_write_state;
    end if;

    if not is_marked then
        perform pgq._fail_write_lost(
            target.write_id, 'The server crashed, and what was staged is gone.'
        );
    end if;

    total := pgq._count_written(target);
    if total <> commit_write.expected_messages then
        raise exception 'bulk write % has another number of messages than expected', target.write_id
            using errcode = '22023',
                detail = format(
                    'Expected: %s; written: %s.', commit_write.expected_messages, total
                ),
                hint = case
                    when target.atomic then 'Nothing was published.'
                    else 'The chunks that came have been published.'
                end;
    end if;

    if target.atomic then
        perform pgq._publish_staged(target);
        perform pgq._forget_staged(target.write_id, null);
    else
        perform pgq._forget_published(target.bulk_write_id, null);
    end if;

    update pgq.bulk_write as w
    set
        committed_at = pgq._clock(),
        messages = total
    where w.bulk_write_id = target.bulk_write_id
    returning w.committed_at
    into target.committed_at;

    perform pgq._forget_older(target);

    return row(target.write_id, total, target.committed_at, false)::pgq.bulk_write_state;
end
$$;

comment on function pgq.commit_write(uuid, bigint) is
'Ends a bulk write; what was staged for an atomic one is published, all at once.
It waits for chunks whose transactions are open, and counts those that commit; chunks of late
writers are refused from now on. The partitions written to are locked for other publishers from
here to the end of the transaction. Within a task messages keep their order, and tasks follow each
other by number; messages without key and partition go to the partition task modulo the number of
partitions. Repeating the call is harmless: the result says repeated. With expected_messages,
another number is refused. No wait takes longer than 60 s for each lock, whatever the session''s own
lock_timeout: then nothing has changed, and you can call it again, or end the session that is in
the way, which pg_blocking_pids tells.
Errors: MQ008 the write was started again, aborted or forgotten, its topic or queue was dropped, or
a part of what was staged is not there (start it again), 22004 no write_id, 22023 another number of
messages than expected, a write that is not atomic was started again and made other chunks, or a
queue has by now a shorter job_ttl than a delay that was staged, 55P03 waited 60 s in vain, 25001
not under READ COMMITTED, and those of publish_batch and enqueue_batch.';
