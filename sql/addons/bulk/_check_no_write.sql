create function pgq._check_no_write(write_id uuid)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    if not pgq._keeps_snapshot() then
        return;
    end if;

    -- A write that the snapshot does not show conflicts with this write_id: the insert raises
    -- 40001.
    insert into pgq.bulk_write (queue_id, atomic, write_id, begun_at, expires_at)
    select 0, true, write_id, pgq._clock(), pgq._clock()
    where write_id is not null
        and not exists (select from pgq.bulk_write as w where w.write_id = _check_no_write.write_id)
    on conflict do nothing;

    delete from pgq.bulk_write as w where w.write_id = _check_no_write.write_id and w.queue_id = 0;
end
$$;

comment on function pgq._check_no_write(uuid) is
'Called when no write of this id was found: above READ COMMITTED it raises 40001 if one exists that
the snapshot is too old to show.';
