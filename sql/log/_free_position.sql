create function pgq._free_position(topic text, partition integer, partitions integer)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    position integer := partition * 1024 / partitions;
begin
    -- Hash positions must be unique: of two partitions with the same one, one would never be
    -- selected.
    while exists (
        select
        from pgq.partition as p
        where p.topic = _free_position.topic and p.hash_position = position
            and p.partition <> _free_position.partition
    ) loop
        position := (position + 1) % 1024;
    end loop;
    return position;
end
$$;

comment on function pgq._free_position(text, integer, integer) is
'Returns a free hash position (0 to 1023) for a partition of a topic with this number of partitions.
Partitions that still have the hash position of a smaller number keep it.';
