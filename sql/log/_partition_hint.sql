create function pgq._partition_hint(topic text, consumer_group text)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    start_at integer := pgq._hash_position();
    target_id bigint;
    there integer;
    chosen integer;
begin
    for pass in 1..2 loop
        select l.group_id, l.partition
        into target_id, there
        from pgq.partition as p
        inner join pgq.group_partition as l on l.partition_id = p.partition_id
        where p.topic = _partition_hint.topic
            and p.hash_position <= start_at
            and l.consumer_group = _partition_hint.consumer_group
        order by p.hash_position desc
        limit 1;
        exit when target_id is null
            or current_setting('pgq.found_in', true) is distinct from pgq._found_in(target_id);

        -- Lock only a partition that has messages to read.
        select l.partition
        into chosen
        from pgq.group_partition as l
        inner join pgq.partition as p on p.partition_id = l.partition_id
        cross join lateral pgq._current_position(l.group_id, l.partition) as j
        where l.group_id = target_id
            and l.partition = there
            and (p.consumers is null or pgq._may(p.consumers))
            and (j.leased_until is null or j.leased_until <= pgq._clock())
            and (
                j.next_offset < p.segment_first_offset
                or (pgq._newest(p.stored_partition_id, p.segment, j.next_offset)).log_offset
                is not null
            )
        for no key update of l skip locked;
        exit when chosen is not null;

        start_at := current_setting('pgq.found_at', true)::integer;
    end loop;

    return chosen;
end
$$;

comment on function pgq._partition_hint(text, text) is
'Finds and locks a partition with messages for a group that counts attempts, without a scan of all
partitions: at this session''s hash position, then where the last scan found messages. Returns null
if there are none, or no hint is valid.';
