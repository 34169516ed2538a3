create function pgq._forget_staged(write_id uuid)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    delete from pgq.staged_write as w
    where w.write_id = _forget_staged.write_id;

    delete from pgq.staged_chunk as c
    where c.write_id = _forget_staged.write_id;

    delete from pgq.staged_task as k
    where k.write_id = _forget_staged.write_id;
end
$$;

comment on function pgq._forget_staged(uuid) is
'Removes what was staged for a bulk write.';
