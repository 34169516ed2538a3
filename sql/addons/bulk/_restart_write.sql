create function pgq._restart_write(known pgq.bulk_write, atomic boolean, timeout interval)
returns pgq.bulk_write
language plpgsql volatile parallel unsafe
as $$
declare
    now_at timestamptz;
begin
    if known.atomic <> atomic then
        raise exception 'write % of producer "%" was begun with atomic = %',
            known.seq, known.producer,
            known.atomic
            using errcode = '22023', hint = 'A write that is open goes on as it was begun.';
    end if;

    -- Writers of the earlier attempt may still have open transactions; do not wait for them.
    --
    -- Atomic: their chunks belong to the old id, which can no longer be committed. cleanup removes
    -- what this call cannot.
    --
    -- Not atomic: their chunks are published if their transactions commit, and count like chunks
    -- published before this call. A writer that repeats an open chunk waits for it, and
    -- commit_write waits for all of them. It detects a chunk that the new attempt does not have by
    -- its attempt number.
    if atomic then
        perform pgq._delete_chunks(known.write_id, null, null);
    end if;

    now_at := pgq._clock();
    update pgq.bulk_write as w
    set
        write_id = gen_random_uuid(), attempt = w.attempt + 1, begun_at = now_at,
        expires_at = now_at + timeout
    where w.bulk_write_id = known.bulk_write_id
    returning w.*
    into known;

    if atomic then
        insert into pgq.staged_write (write_id) values (known.write_id);
    end if;
    return known;
end
$$;

comment on function pgq._restart_write(pgq.bulk_write, boolean, interval) is
'Starts an open write, which the caller has locked, again under a new id. Raises 22023 when it was
begun with another value of atomic.';
