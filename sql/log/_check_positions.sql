create function pgq._check_positions(topic text, consumer_group text)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- Journal rows that the snapshot does not show would never be deleted: raise 40001 instead.
    if pgq._keeps_snapshot() then
        perform pgq._keep_position(pgq._lock_group(l.topic, l.consumer_group, l.partition, false))
        from pgq.group_partition as l
        where l.topic = _check_positions.topic
            and l.consumer_group = coalesce(_check_positions.consumer_group, l.consumer_group);
    end if;
end
$$;

comment on function pgq._check_positions(text, text) is
'Guards the removal of the positions of a group, or of all groups of a topic, whose rows the caller
has locked: above READ COMMITTED it raises 40001 when the snapshot does not show all of them.';
