create function pgq.abort_write(write_id uuid)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    target pgq.bulk_write;
begin
    if abort_write.write_id is null then
        perform pgq._fail_write_lost(abort_write.write_id, null);
    end if;

    select w.*
    into target
    from pgq.bulk_write as w
    where w.write_id = abort_write.write_id
        and w.committed_at is null
    for update;

    if target.bulk_write_id is null then
        return false;
    end if;

    perform pgq._forget_staged(target.write_id);

    if target.atomic or target.producer is null then
        delete from pgq.bulk_write as w
        where w.bulk_write_id = target.bulk_write_id;
    else
        -- What was published stays, and is left out when the write is begun anew.
        update pgq.bulk_write as w
        set write_id = gen_random_uuid()
        where w.bulk_write_id = target.bulk_write_id;
    end if;
    return true;
end
$$;

comment on function pgq.abort_write(uuid) is
'Gives up a bulk write, removes what was staged for it, and refuses those who still write.
Chunks that were published already stay; when the write is begun anew they are left out. False when
there is no such write, or it has been committed.
Errors: 22004 no write_id.';
