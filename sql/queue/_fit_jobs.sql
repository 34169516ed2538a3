create function pgq._fit_jobs(chosen pgq._chosen_jobs, max_bytes bigint)
returns integer
language plpgsql stable parallel safe
as $$
declare
    wanted integer := cardinality(chosen.tids);
    most_bytes bigint;
    measured integer := 0;
    fitting integer;
    bytes bigint := 0;
begin
    if chosen.unbegun is not null then
        -- It may have ended its worker: hand it out with nothing beside it.
        wanted := greatest(array_position(chosen.tids, chosen.unbegun[1]) - 1, 1);
    end if;
    select coalesce(max(b.bytes), 32768)
    into most_bytes
    from (
        select chosen.leaves[1] as leaf
        union
        select unnest(chosen.leaves)
        where chosen.leaves[1] <> any(chosen.leaves)
    ) as l
    cross join lateral (
        select s.bytes
        from pgq.size_bound as s
        where s.segment = l.leaf
        order by s.bytes desc
        limit 1
    ) as b;

    if wanted * most_bytes <= max_bytes then
        return wanted;
    end if;

    -- Measure pieces, each as large as those before it together: a large one may be the first.
    while measured < wanted loop
        execute (
            select
                format(
                    'select count(*) filter (where s.bytes <= $4 or s.ordinal = 1), max(s.bytes)
                    from (
                        select j.ordinal, $3 + sum(j.bytes) over (order by j.ordinal) as bytes
                        from (%s) as j
                    ) as s',
                    string_agg(
                        format(
                            'select
                                c.ordinal,
                                coalesce(
                                    (
                                        select
                                            pgq._message_bytes(m.payload, m.key, m.headers, m.body)
                                        from pgq.message_%1$s as m
                                        where m.partition_id = j.partition_id
                                            and m.log_offset = j.log_offset
                                    ),
                                    0
                                ) as bytes
                            from unnest($1, $2) with ordinality as c (tid, leaf, ordinal)
                            inner join pgq.job as j on j.ctid = c.tid
                            where c.leaf = %1$s
                                and c.ordinal > $5',
                            l.leaf
                        ),
                        ' union all '
                    )
                )
            from (
                select distinct unnest(chosen.leaves[measured + 1:2 * measured + 8]) as leaf
            ) as l
        )
        into fitting, bytes
        using
            chosen.tids[:2 * measured + 8], chosen.leaves[:2 * measured + 8], bytes, max_bytes,
            measured;

        exit when bytes > max_bytes;
        measured := 2 * measured + 8;
    end loop;

    return least(wanted, measured + fitting);
end
$$;

comment on function pgq._fit_jobs(pgq._chosen_jobs, bigint) is
'How many of the jobs that a claim has chosen it takes, from the first: their messages are together
not larger than max_bytes, and none was lost with its worker before it began. At least one.';
