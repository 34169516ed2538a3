create function pgq._pack(
    segment integer, stored_partition_id bigint, first_offset bigint, last_offset bigint,
    shift bigint, published_at timestamptz
)
returns pgq.packed_messages
language plpgsql stable parallel safe
as $$
declare
    most_bytes constant integer := 1048576;
    last bigint;
    packed pgq.packed_messages;
begin
    -- Values that are not TOASTed are small: compute sizes only if a larger one is in the range.
    execute format(
        'select
            case
                when pg_relation_size(
                    (
                        select c.reltoastrelid
                        from pg_class as c
                        where c.oid = ''pgq.message_%1$s''::regclass
                    )
                ) = 0
                    or not exists (
                        select
                        from pgq.message_%1$s as m
                        where m.partition_id = $1
                            and m.log_offset between $2 and $3
                            and greatest(pg_column_size(m.body), pg_column_size(m.payload)) > 2000
                    )
                    then $3
                else (
                    select max(s.log_offset)
                    from (
                        select
                            m.log_offset,
                            sum(coalesce(octet_length(m.body), octet_length(m.payload::text)))
                                over (
                                    order by m.log_offset
                                    rows between unbounded preceding and 1 preceding
                                ) as bytes_before
                        from pgq.message_%1$s as m
                        where m.partition_id = $1
                            and m.log_offset between $2 and $3
                    ) as s
                    where coalesce(s.bytes_before, 0) < $4
                )
            end',
        segment
    )
    into last
    using stored_partition_id, first_offset, last_offset, most_bytes;

    execute format(
        $statement$
        select
            $2 + $4,
            count(*)::integer,
            array_agg(coalesce(m.body, convert_to(m.payload::text, 'UTF8'))),
            case when count(m.key) > 0 then array_agg(convert_to(m.key, 'UTF8')) end,
            array_agg(
                (
                    tstzrange_subdiff(coalesce($5, m.published_at), '2000-01-01 00:00:00Z') * 1e6
                )::bigint + 946684800000000
            ),
            case
                when count(m.headers) > 0
                    then array_agg(
                        case
                            when m.headers is not null then (
                                select
                                    coalesce(
                                        jsonb_agg(jsonb_build_array(h.key, v.value)), '[]'
                                    )::text
                                from jsonb_each(m.headers) as h
                                cross join lateral jsonb_array_elements_text(
                                    case
                                        when h.value @@ 'strict $.type() == "array"
                                            && $.size() > 1
                                            && !exists($[*] ? (
                                                @.type() != "string" && @.type() != "null"
                                            ))'
                                            then h.value
                                        else jsonb_build_array(h.value)
                                    end
                                ) as v (value)
                            )
                        end
                    )
            end
        from (
            select n.*
            from pgq.message_%1$s as n
            where n.partition_id = $1
                and n.log_offset between $2 and $3
            order by n.log_offset
        ) as m
        $statement$,
        segment
    )
    into packed
    using
        stored_partition_id, first_offset, last, shift, published_at;

    -- A message is missing: cleanup has truncated the segment since the look-up.
    return case when packed.messages > last - first_offset then packed end;
end
$$;

comment on function pgq._pack(integer, bigint, bigint, bigint, bigint, timestamptz) is
'Returns a row of fetch_packed: messages under one stored id in one segment, from first_offset up to
the message that reaches 1 MB, or to last_offset. Returns null if one of them is missing.';
