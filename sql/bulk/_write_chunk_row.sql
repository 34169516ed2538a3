create function pgq._write_chunk_row()
returns trigger
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    if pgq.write_chunk(
        new.write_id::uuid,
        new.task,
        new.task_attempt,
        new.chunk,
        new.packed,
        new.lengths,
        new.keys,
        new.headers::jsonb[],
        new.labels,
        new.partition,
        new.priority,
        new.delay::interval,
        coalesce(new.is_json, false),
        coalesce(new.last, false),
        new.starts
    ) then
        return new;
    end if;
    return null;
end
$$;

comment on function pgq._write_chunk_row() is
'Calls write_chunk for each row inserted into write_chunks.';
