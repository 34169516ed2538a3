create function pgq._begin_wakeups(queue_id bigint)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    floors pgq.queue_floor;
begin
    -- Another claim is changing the floors: a later one does this.
    if not pgq._lock_floor(queue_id) then
        return;
    end if;

    select f.* into floors from pgq._read_floors(queue_id, '') as f where f.wakeup_floor is null;

    if found then
        floors.seq := floors.seq + 1;
        floors.wakeup_floor := '-infinity';
        insert into pgq.queue_floor values (floors.*) on conflict do nothing;
    end if;
end
$$;

comment on function pgq._begin_wakeups(bigint) is
'Adds a low-water mark for wake-up records (wakeup_floor) to a queue created without a
max_leased_per_key.';
