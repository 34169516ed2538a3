create function pgq._write_chunk_row()
returns trigger
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
begin
    if pgq.write_chunk(
        write_id => new.write_id::uuid, task => new.task, task_attempt => new.task_attempt,
        chunk => new.chunk, lengths => new.lengths, packed_payloads => new.packed_payloads,
        keys => new.keys, headers => new.headers::jsonb[], partition => new.partition,
        delay => new.delay::interval, priority => new.priority, labels => new.labels,
        last_chunk => new.last_chunk, starts => new.starts, packed_bodies => new.packed_bodies
    ) then
        return new;
    end if;
    return null;
end
$$;

comment on function pgq._write_chunk_row() is
'Trigger of write_chunks: calls write_chunk for each inserted row.';
