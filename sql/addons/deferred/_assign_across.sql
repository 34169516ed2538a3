create function pgq._assign_across(
    state pgq._partition_state, left_segments integer[], since pgq._staged_since,
    before_first bigint, publish_time timestamptz, max_messages bigint
)
returns bigint
language plpgsql volatile parallel unsafe
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    newest_segment integer := (state).segment;
    own_id bigint := (state).partition_id;
    stored_id bigint := (state).stored_partition_id;
    leaves integer[] := array(
        select distinct s.segment
        from unnest(left_segments || newest_segment) as s (segment)
    );
    leaf integer;
    -- The rows found, as parallel arrays.
    segments integer[];
    tids tid[];
    offsets bigint[];
begin
    -- One statement, so one snapshot over all segments: a key's message in one segment is never
    -- seen without its earlier message in another. Rows are ordered by call number.
    execute format(
        'select array_agg(r.segment), array_agg(r.tid), array_agg(r.log_offset)
        from (
            select
                f.segment,
                f.tid,
                $5 + row_number() over (order by f.staged_number) as log_offset
            from (%s) as f
            order by f.staged_number
            limit $6
        ) as r',
        (
            select
                string_agg(
                    format(
                        'select %1$s as segment, k.ctid as tid, k.log_offset as staged_number
                        from pgq.message_%1$s as k
                        where k.partition_id >= $1
                            and k.partition_id < $2
                        union all
                        select %1$s, f.tid, f.staged_number
                        from unnest($3) as x (xid)
                        cross join lateral (
                            select k.ctid as tid, k.log_offset as staged_number
                            from pgq.message_%1$s as k
                            where k.partition_id
                                = pgq._staged_id($4, x.xid::text::bigint)
                            offset 0
                        ) as f
                        where pg_visible_in_snapshot(x.xid, (select pg_current_snapshot()))',
                        l.leaf
                    ),
                    ' union all '
                )
            from unnest(leaves) as l (leaf)
        )
    )
    into segments, tids, offsets
    using
        (since).lowest,
        pgq._staged_id(own_id + 1, 0),
        (since).late_xids,
        own_id,
        before_first,
        max_messages;

    if segments is null then
        return 0;
    end if;

    -- No race: the partition is locked. The rows move to the segment that it writes to now.
    foreach leaf in array leaves loop
        perform pgq._copy_size(leaf, own_id, newest_segment, stored_id);
        if leaf = newest_segment then
            execute format(
                'update pgq.message_%s as m
                set partition_id = $1, log_offset = f.log_offset, published_at = $2
                from unnest($3, $4, $5) as f (segment, tid, log_offset)
                where f.segment = $6
                    and m.ctid = f.tid',
                newest_segment
            )
            using stored_id, publish_time, segments, tids, offsets, newest_segment;
        else
            execute format(
                'with gone as (
                    delete from pgq.message_%s as m
                    using unnest($3, $4, $5) as f (segment, tid, log_offset)
                    where f.segment = $6
                        and m.ctid = f.tid
                    returning f.log_offset, m.key, m.headers, m.payload, m.body
                )

                insert into pgq.message_%s (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select $1, g.log_offset, $2, $7, g.key, g.headers, g.payload, g.body
                from gone as g',
                leaf,
                newest_segment
            )
            using stored_id, publish_time, segments, tids, offsets, leaf, newest_segment;
        end if;
    end loop;

    return cardinality(offsets);
end
$$;

comment on function pgq._assign_across(
    pgq._partition_state, integer[], pgq._staged_since, bigint, timestamptz, bigint
) is
'Does the work of _assign while staged messages may still be in segments that the partition has
left; returns the number of messages that got offsets.';
