create function pgq._free_ring(topic text, partition integer, partitions integer)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    place integer := partition * 1024 / partitions;
begin
    -- Slots must be unique: of two partitions in one slot, one would never be selected.
    while exists (
        select
        from pgq.partition as p
        where p.topic = _free_ring.topic and p.ring = place and p.partition <> _free_ring.partition
    ) loop
        place := (place + 1) % 1024;
    end loop;
    return place;
end
$$;

comment on function pgq._free_ring(text, integer, integer) is
'Returns a free slot (0 to 1023) for a partition of a topic with this number of partitions.
Partitions that still have the slot of a smaller number keep it.';
