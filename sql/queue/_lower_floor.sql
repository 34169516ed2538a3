create function pgq._lower_floor(queue_id bigint, now_at timestamptz)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    floors pgq.queue_floor;
begin
    select f.* into floors from pgq._read_floors(queue_id, '') as f;

    -- Jobs below a floor exist only if the clock was set back. The new epoch invalidates the floors
    -- of labels, which may be wrong as well.
    select
        array_agg(coalesce(b.visible_at, p.floor_time) order by p.ordinal),
        array_agg(coalesce(b.job_id, p.floor_id) order by p.ordinal)
    into floors.floor_times, floors.floor_ids
    from unnest(floors.floor_times, floors.floor_ids)
        with ordinality as p (floor_time, floor_id, ordinal)
    left join pgq._below_floor(queue_id, floors.floor_times, floors.floor_ids, now_at) as b
        on b.ordinal = p.ordinal
    having count(b.job_id) > 0;

    if not found then
        return false;
    end if;

    floors.seq := floors.seq + 1;
    floors.epoch := floors.epoch + 1;
    insert into pgq.queue_floor values (floors.*) on conflict do nothing;
    return found;
end
$$;

comment on function pgq._lower_floor(bigint, timestamptz) is
'Lowers the floors of a queue to the first claimable job below them; false: there is none.
The caller holds the floor lock.';
