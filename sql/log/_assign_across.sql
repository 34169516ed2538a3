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
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    home integer := (_assign_across.state).segment;
    home_id bigint := (_assign_across.state).partition_id;
    leaves integer[] := array(
        select distinct s.segment
        from unnest(_assign_across.left_segments || home) as s (segment)
    );
    leaf integer;
    found_places tid[];
    found_numbers bigint[];
    -- What was found in all of them, and then the offset of each.
    places tid[] := '{}';
    numbers bigint[] := '{}';
    segments integer[] := '{}';
    offsets bigint[];
begin
    foreach leaf in array leaves loop
        execute format(
            'select array_agg(q.place), array_agg(q.number)
            from (
                select k.ctid as place, k.log_offset as number
                from pgq.message_%1$s as k
                where k.partition_id >= $1
                    and k.partition_id < $2
                union all
                select f.place, f.number
                from unnest($3) as i (id)
                cross join lateral (
                    select k.ctid as place, k.log_offset as number
                    from pgq.message_%1$s as k
                    where k.partition_id = i.id
                    offset 0
                ) as f
            ) as q',
            leaf
        )
        into found_places, found_numbers
        using
            (_assign_across.since).lowest,
            (home_id + 1) << 40,
            (_assign_across.since).ids;

        if found_places is not null then
            places := places || found_places;
            numbers := numbers || found_numbers;
            segments := segments || array_fill(leaf, array[cardinality(found_places)]);
        end if;
    end loop;

    -- In the order of their numbers across all of them.
    select array_agg(r.segment), array_agg(r.place), array_agg(r.log_offset)
    into segments, places, offsets
    from (
        select
            f.segment,
            f.place,
            _assign_across.before_first + row_number() over (order by f.number) as log_offset
        from unnest(segments, places, numbers) as f (segment, place, number)
        order by f.number
        limit _assign_across.max_messages
    ) as r;

    -- Nobody else moves them: the partition is locked. They go to where it writes to now.
    foreach leaf in array leaves loop
        if leaf = home then
            execute format(
                'update pgq.message_%s as m
                set partition_id = $1, log_offset = f.log_offset, published_at = $2
                from unnest($3, $4, $5) as f (segment, place, log_offset)
                where f.segment = $6
                    and m.ctid = f.place',
                home
            )
            using home_id, _assign_across.stamp, segments, places, offsets, home;
        else
            execute format(
                'with gone as (
                    delete from pgq.message_%s as m
                    using unnest($3, $4, $5) as f (segment, place, log_offset)
                    where f.segment = $6
                        and m.ctid = f.place
                    returning f.log_offset, m.key, m.headers, m.payload, m.body
                )

                insert into pgq.message_%s (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select $1, g.log_offset, $2, $7, g.key, g.headers, g.payload, g.body
                from gone as g',
                leaf,
                home
            )
            using home_id, _assign_across.stamp, segments, places, offsets, leaf, home;
        end if;
    end loop;

    return coalesce(cardinality(offsets), 0);
end
$$;

comment on function pgq._assign_across(
    pgq._partition_state, integer[], pgq._staged_since, bigint, timestamptz, bigint
) is
'What _assign does as long as staged messages may stand in segments that the partition has left;
returns how many got offsets.';
