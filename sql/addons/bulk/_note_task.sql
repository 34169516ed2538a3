create function pgq._note_task(write_id uuid, task integer, task_attempt text)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    owner_attempt text;
begin
    -- The first attempt of a task that commits counts. A concurrent attempt waits here until that
    -- is decided.
    insert into pgq.staged_task (write_id, task, task_attempt, staged_at)
    values (write_id, task, task_attempt, pgq._clock())
    on conflict do nothing;

    if not found then
        select k.task_attempt
        into owner_attempt
        from pgq.staged_task as k
        where k.write_id = _note_task.write_id and k.task = _note_task.task;

        if owner_attempt is distinct from task_attempt then
            return false;
        end if;
    end if;

    -- Lock the marker only now: an attempt whose chunks are ignored must not delay commit_write.
    perform from pgq.staged_write as s where s.write_id = _note_task.write_id for key share;

    if not found then
        perform pgq._fail_write_lost(
            write_id,
            case
                when exists (
                    select
                    from pgq.bulk_write as w
                    where w.write_id = _note_task.write_id and w.committed_at is null
                ) then 'What was staged is not in this database.'
                else 'It was committed, started again or aborted meanwhile.'
            end
        );
    end if;
    return true;
end
$$;

comment on function pgq._note_task(uuid, integer, text) is
'Records the attempt of a task; true when it is the one that counts. The write then stays open until
the transaction of the attempt ends. Raises MQ008.';
