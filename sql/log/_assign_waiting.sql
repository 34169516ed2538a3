create function pgq._assign_waiting(topic text, partition integer)
returns bigint
language plpgsql volatile parallel unsafe
as $$
declare
    total bigint;
begin
    select sum(r.last_offset - r.first_offset + 1)
    into total
    from pgq._assign_all(_assign_waiting.topic, _assign_waiting.partition, 100000) as r;

    return coalesce(total, 0);
end
$$;

comment on function pgq._assign_waiting(text, integer) is
'Gives offsets to what is staged for a partition of a deferred topic, or for all, and committed, for
a consumer that has nothing to read; returns how many got theirs.';
