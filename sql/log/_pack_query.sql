create function pgq._pack_query(
    segment integer, stored_partition_id bigint, first_offset bigint, last_offset bigint
)
returns text
language plpgsql stable parallel safe
as $$
declare
    has_large boolean := false;
    parts text;
begin
    -- Values that are not TOASTed are small: compute sizes only if a larger one is in the range.
    if (
        select pg_relation_size(c.reltoastrelid)
        from pg_class as c
        where c.oid = format('pgq.message_%s', segment)::regclass
    ) > 0 then
        execute format(
            'select exists (
                select
                from pgq.message_%s as m
                where m.partition_id = $1
                    and m.log_offset between $2 and $3
                    and greatest(pg_column_size(m.body), pg_column_size(m.payload)) > 2000
            )',
            segment
        )
        into has_large
        using stored_partition_id, first_offset, last_offset;
    end if;

    parts := case
        when has_large
            then '
            select min(s.log_offset), max(s.log_offset)
            from (
                select
                    m.log_offset,
                    coalesce(
                        sum(coalesce(octet_length(m.body), octet_length(m.payload::text))) over (
                            order by m.log_offset
                            rows between unbounded preceding and 1 preceding
                        ),
                        0
                    ) / 1048576 as megabytes_before
                from stored as m
            ) as s
            group by (s.log_offset - $2) / 1000, s.megabytes_before
            order by 1'
        else '
            select s.first_offset, s.first_offset + least($3 - s.first_offset, 999)
            from generate_series($2, (select max(m.log_offset) from stored as m), 1000)
                as s (first_offset)'
    end;

    -- Planned at each call, so one statement takes all parts of the range.
    return format(
        $statement$
        with stored as not materialized (
            select m.*
            from pgq.message_%s as m
            where m.partition_id = $1
                and m.log_offset between $2 and $3
        )

        select p.first_offset + $4, a.*
        from (%s) as p (first_offset, last_offset)
        cross join lateral (
            select
                count(*)::integer,
                array_agg(coalesce(m.body, convert_to(m.payload::text, 'UTF8'))),
                case when count(m.key) > 0 then array_agg(convert_to(m.key, 'UTF8')) end,
                array_agg(
                    (
                        tstzrange_subdiff(coalesce($5, m.published_at), '2000-01-01 00:00:00Z')
                        * 1e6
                    )::bigint + 946684800000000
                ),
                case
                    when count(m.headers) > 0
                        then array_agg(
                            case
                                when m.headers is not null
                                    then to_jsonb(
                                        array(
                                            select h
                                            from pgq._header_pairs(m.headers) as h
                                        )
                                    )::text
                            end
                        )
                end
            from (
                select n.*
                from stored as n
                where n.log_offset between p.first_offset and p.last_offset
                order by n.log_offset
            ) as m
        ) as a
        $statement$,
        segment, parts
    );
end
$$;

comment on function pgq._pack_query(integer, bigint, bigint, bigint) is
'The statement of fetch_packed for messages under one stored id in one segment. Its parameters: the
stored id, the first and the last stored offset, what is added to them, and the publish time or
null. A row has up to 1000 messages; with large ones it ends with one that reaches a megabyte.';
