create function pgq.abort_write(
    write_id uuid default null,
    seq bigint default null,
    owner text default null
)
returns boolean
language plpgsql volatile parallel unsafe
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
begin
    if write_id is not null and num_nonnulls(seq, owner) > 0 then
        raise exception 'give either "write_id", or "owner" and "seq"' using errcode = '22023';
    end if;
    if num_nulls(seq, owner) = 0 then
        -- SKIP LOCKED: other tasks of the owner abort the same writes, or a commit is under way.
        perform pgq.abort_write(o.write_id)
        from (
            select w.write_id
            from pgq.bulk_write as w
            where w.owner = abort_write.owner collate "C"
                and w.seq < abort_write.seq
                and w.committed_at is null
                and pgq._may_write(w.topic_id, w.queue_id)
            for update skip locked
        ) as o;
        return found;
    end if;
    if write_id is null then
        perform pgq._fail_write_lost(write_id, null);
    end if;

    select w.*
    into target
    from pgq.bulk_write as w
    where w.write_id = abort_write.write_id
        and w.committed_at is null
        and pgq._may_write(w.topic_id, w.queue_id)
    for update;

    if target.bulk_write_id is null then
        perform pgq._check_no_write(write_id);
        return false;
    end if;

    if target.atomic or target.producer is null then
        -- Do not wait for open chunks: cleanup removes what they leave.
        perform pgq._delete_chunks(target.write_id, target.bulk_write_id, null);
        delete from pgq.bulk_write as w where w.bulk_write_id = target.bulk_write_id;
    else
        -- Published chunks stay: keep the write, so that a restart skips them.
        update pgq.bulk_write as w
        set write_id = gen_random_uuid()
        where w.bulk_write_id = target.bulk_write_id;
    end if;
    return true;
end
$$;

comment on function pgq.abort_write(uuid, bigint, text) is
'Aborts a bulk write: removes its staged chunks, and refuses later writers.
False when no write has this id, or when it is committed. Chunks that were already published stay in
the topic or queue, and so do chunks of open transactions that commit later; if the same producer
begins the write again, these chunks are skipped.
owner and seq, in place of write_id: aborts the open writes that begin_write got with this owner and
a smaller seq, except those that another transaction has locked. False when there are none.
Errors: 22004 a required argument is null, 22023 both ways to name writes are given, 40001 above
READ COMMITTED when another transaction was first (try again), 55P03 waited 60 s for a lock (call it
again).';
