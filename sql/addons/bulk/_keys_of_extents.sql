create function pgq._keys_of_extents(write_id uuid)
returns table (key text, headers jsonb)
language plpgsql stable parallel unsafe
as $$
declare
    target record;
begin
    for target in
        select r.segment, array_agg(r.stored_partition_id) as stored_ids
        from pgq.staged_extent as r
        where r.write_id = _keys_of_extents.write_id
        group by r.segment
    loop
        return query execute format(
            'select m.key, m.headers
            from pgq.message_%s as m
            where m.partition_id = any($1)',
            target.segment
        )
        using target.stored_ids;
    end loop;
end
$$;

comment on function pgq._keys_of_extents(uuid) is
'The keys and headers of the messages of a write that are in extents.';
