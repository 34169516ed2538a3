create function pgq.commit_write(
    write_id uuid,
    expected_messages bigint default null,
    digest text default null
)
returns setof pgq.bulk_write_state
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set lock_timeout = '60s'
as $$
declare
    target pgq.bulk_write;
    is_open boolean;
begin
    -- An old snapshot would not show all staged chunks, and the others would be lost.
    perform pgq._check_read_committed('commit_write');

    target := pgq._lock_write(write_id);
    is_open := target.committed_at is null;
    if is_open then
        target.messages := pgq._count_written(target, expected_messages);

        if target.atomic then
            perform pgq._publish_staged(target);
        end if;
        perform pgq._check_target(target.write_id, target.topic_id, target.queue_id);
        perform pgq._delete_chunks(target.write_id, target.bulk_write_id, null);
        target.committed_at := pgq._clock();
        update pgq.bulk_write as w
        set
            committed_at = target.committed_at, messages = target.messages,
            digest = commit_write.digest
        where w.bulk_write_id = target.bulk_write_id;

        perform pgq._delete_older(target);
    elsif target.digest <> digest collate "C" then
        raise exception 'bulk write % was committed before with other messages', target.write_id
            using errcode = '22023',
                detail = format(
                    'Write %s of producer "%s"; digest then: %s; now: %s.',
                    target.seq, target.producer, target.digest, digest
                ),
                hint = 'Nothing was written. Perhaps somebody else uses the same producer, or '
                    'a job has gone back behind what it had committed.';
    end if;

    return next row(target.write_id, target.messages, target.committed_at, not is_open, null)
        ::pgq.bulk_write_state;
end
$$;

comment on function pgq.commit_write(uuid, bigint, text) is
'Commits a bulk write; an atomic one publishes all its messages at once; MQ008 when it is lost.
The call waits for open transactions that have written chunks, and counts the chunks of those that
commit. Chunks of later writers are refused. The partitions of the write are locked for other
publishers until the transaction of this call ends. The call is short: messages of tasks with
several chunks are already stored, and are only attached to the log, with the time of the commit as
published_at. It takes longer if messages are copied: those of tasks with one chunk, those of a
topic with subscriptions, and jobs. In an atomic write, messages of a task keep their order in each
partition, tasks follow each other by number, and messages without a key and without a partition go
to the partition (task modulo the number of partitions). The call can be repeated: the result then
has duplicate = true.
expected_messages: the commit is refused if the write has another number of messages; null: any
number. digest: a text that the writers compute from all messages, in any way; null: none. It is
stored with the write, and a repeated call with another digest is refused: so if the messages have
to be the same, call commit_write even when begin_write returned duplicate = true. The call waits at
most 60 s for each lock, even when the lock_timeout of the session is longer. After a timeout
nothing has changed: call it again, or end the session that holds the lock (see pg_blocking_pids).
Errors: MQ008 the write was started again, aborted or forgotten, its topic or queue was dropped,
or a part of what was staged is missing (start it again), 22004 a required argument is null, 22023
another number of messages than expected, another digest than at the commit before, a write that is
not atomic was started again and made other chunks, or the queue does not allow a delay that was
staged any more, 25001 not under READ COMMITTED, 55P03 waited 60 s for a lock (call it again), and
those of publish_batch and enqueue_batch.';
