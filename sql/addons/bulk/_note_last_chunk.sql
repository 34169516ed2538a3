create function pgq._note_last_chunk(write_id uuid, task integer)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    update pgq.staged_task as k
    set messages = (
        select sum(c.messages)
        from pgq.staged_chunk as c
        where c.write_id = _note_last_chunk.write_id and c.task = _note_last_chunk.task
    )
    where k.write_id = _note_last_chunk.write_id and k.task = _note_last_chunk.task;
end
$$;

comment on function pgq._note_last_chunk(uuid, integer) is
'Records the number of messages that a task has staged, so that commit_write notices a missing
chunk.';
