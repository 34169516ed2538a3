create function pgq._free_ring(topic text, partition integer, partitions integer)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    place integer := partition * 1024 / partitions;
begin
    -- Its own place, or the next one behind it: of two at one place, one would never be chosen.
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
'The place on the ring for a partition of a topic that has so many; those that still stand where
they stood with fewer keep theirs.';
