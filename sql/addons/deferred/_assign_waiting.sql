create function pgq._assign_waiting(topic text, partition integer)
returns bigint
language plpgsql volatile parallel unsafe
as $$
begin
    return coalesce(
        (
            select sum(r.last_offset - r.first_offset + 1)
            from pgq._assign_all(topic, partition, 100000) as r
        ),
        0
    );
end
$$;

comment on function pgq._assign_waiting(text, integer) is
'Assigns offsets to the committed staged messages of a partition of a deferred topic, or of all if
it is null, for a consumer that has nothing to read; returns the number of messages, 100000 per
partition at most.';
