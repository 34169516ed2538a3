create function pgq._note_chunk(
    write_id uuid, target pgq._write_target, task integer, chunk integer, messages integer,
    digest bigint
)
returns boolean
language plpgsql volatile parallel unsafe
as $$
begin
    -- FOR KEY SHARE: commit_write waits for this chunk, and a chunk that comes after the commit
    -- finds no marker.
    perform
    from pgq.published_write as g
    where g.bulk_write_id = target.bulk_write_id
    for key share;

    if not found then
        perform pgq._fail_write_lost(write_id, 'It was committed, aborted or forgotten meanwhile.');
    end if;

    insert into pgq.published_chunk (bulk_write_id, task, chunk, messages, digest, attempt)
    values (target.bulk_write_id, task, chunk, messages, digest, target.attempt)
    on conflict do nothing;

    if found then
        return true;
    end if;

    -- A writer of an earlier attempt may come after one of a later attempt: keep the higher number.
    update pgq.published_chunk as p
    set attempt = greatest(p.attempt, target.attempt)
    where p.bulk_write_id = target.bulk_write_id
        and p.task = _note_chunk.task
        and p.chunk = _note_chunk.chunk
        and p.digest = _note_chunk.digest;

    if not found then
        raise exception 'chunk % of task % was written before with other contents',
            chunk, task
            using errcode = '22023',
                detail = 'A repeated task must make the same chunks; this one did not.',
                hint = 'What was published stays. For input that is not the same each time, begin '
                    'new writes as atomic ones.';
    end if;
    return false;
end
$$;

comment on function pgq._note_chunk(uuid, pgq._write_target, integer, integer, integer, bigint) is
'Records a chunk of a write that is not atomic; true when it is new. The write then stays open until
the transaction of the chunk ends. Raises MQ008, and 22023 when a different chunk has these
numbers.';
