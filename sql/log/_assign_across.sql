create function pgq._assign_across(
    state pgq._partition_state,
    left_segments integer[],
    since pgq._staged_since,
    before_first bigint,
    stamp timestamptz,
    max_messages bigint
)
returns bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    home integer := (_assign_across.state).segment;
    leaves integer[] := array(
        select distinct s.segment
        from unnest(_assign_across.left_segments || home) as s (segment)
    );
    statement text;
    moved bigint;
begin
    -- In the order of the numbers across all of them. A message goes to where the partition writes
    -- to now.
    select format(
        'with staged as materialized (%s),
        ranked as materialized (
            select s.leaf, s.place, $4 + row_number() over (order by s.number) as log_offset
            from staged as s
            order by s.number
            limit $6
        ),
        %s
        moved as (
            update pgq.message_%s as m
            set partition_id = $1, log_offset = r.log_offset, published_at = $5
            from ranked as r
            where r.leaf = %3$s and m.ctid = r.place
        )
        select count(*) from ranked',
        string_agg(
            format(
                'select %1$s as leaf, k.ctid as place, k.log_offset as number
                from pgq.message_%1$s as k
                where k.partition_id >= $2 and k.partition_id < ($1 + 1) << 40
                union all
                select %1$s, k.ctid, k.log_offset
                from unnest($3) as i (id)
                inner join pgq.message_%1$s as k on k.partition_id = i.id',
                l.leaf
            ),
            ' union all '
        ),
        string_agg(
            format(
                'gone_%1$s as (
                    delete from pgq.message_%1$s as m
                    using ranked as r
                    where r.leaf = %1$s and m.ctid = r.place
                    returning r.log_offset, m.key, m.headers, m.payload, m.body
                ),
                come_%1$s as (
                    insert into pgq.message_%2$s (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select $1, g.log_offset, $5, %2$s, g.key, g.headers, g.payload, g.body
                    from gone_%1$s as g
                ),',
                l.leaf,
                home
            ),
            ' '
        ) filter (where l.leaf <> home),
        home
    )
    into statement
    from unnest(leaves) as l (leaf);

    execute statement
    into moved
    using
        (_assign_across.state).partition_id,
        (_assign_across.since).lowest,
        (_assign_across.since).ids,
        _assign_across.before_first,
        _assign_across.stamp,
        _assign_across.max_messages;
    return moved;
end
$$;

comment on function pgq._assign_across(
    pgq._partition_state, integer[], pgq._staged_since, bigint, timestamptz, bigint
) is
'What _assign does as long as staged messages may stand in segments that the partition has left;
returns how many got offsets.';
