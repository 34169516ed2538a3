create function pgq._fit_jobs(chosen pgq._chosen_jobs, max_bytes bigint)
returns pgq._chosen_jobs
language plpgsql stable parallel safe
as $$
declare
    most_bytes bigint;
    fitting integer;
begin
    select coalesce(max(s.bytes), 32768)
    into most_bytes
    from pgq.size_bound as s
    where s.segment = any(chosen.leaves);

    if cardinality(chosen.tids) * most_bytes <= max_bytes then
        return chosen;
    end if;

    execute (
        select
            format(
                'select count(*)
                from (
                    select j.ordinal, sum(j.bytes) over (order by j.ordinal) as bytes
                    from (%s) as j
                ) as s
                where s.bytes <= $3
                    or s.ordinal = 1',
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
                        where c.leaf = %1$s',
                        l.leaf
                    ),
                    ' union all '
                )
            )
        from (select distinct unnest(chosen.leaves) as leaf) as l
    )
    into fitting
    using chosen.tids, chosen.leaves, max_bytes;

    return pgq._cut_jobs(chosen, fitting);
end
$$;

comment on function pgq._fit_jobs(pgq._chosen_jobs, bigint) is
'The first of the jobs that a claim has chosen whose messages are not larger than max_bytes
together, at least one. The others stay locked until the transaction ends.';
