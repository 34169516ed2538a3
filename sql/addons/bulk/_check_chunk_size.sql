create function pgq._check_chunk_size(
    target pgq._write_target, lengths integer[], packed_payloads bytea, keys text[], headers jsonb[]
)
returns bigint
language plpgsql stable parallel safe
as $$
declare
    largest bigint := pgq._largest(lengths, keys, headers);
    refused record;
begin
    if largest <= least(target.max_message_bytes, 98304) then
        return largest;
    end if;

    -- A payload of more than 96 KiB may be too long as text: see _sizes.
    select s.*
    into refused
    from (
        select
            m.ordinal, m.length as content,
            coalesce(octet_length((keys)[m.ordinal]), 0)
            + coalesce(octet_length((headers)[m.ordinal]::text), 0) as attributes,
            case
                when m.length between 98305 and target.max_message_bytes
                    then octet_length(
                        convert_from(
                            substring(packed_payloads from m.start::integer for m.length), 'UTF8'
                        )::jsonb::text
                    )
            end as as_text
        from (
            select
                l.length, l.ordinal::integer,
                1 + sum(l.length) over (order by l.ordinal) - l.length as start
            from unnest(lengths) with ordinality as l (length, ordinal)
        ) as m
    ) as s
    where s.content > target.max_message_bytes or s.attributes > 262144 or s.as_text > 536870912
    order by s.ordinal
    limit 1;

    if refused.ordinal is not null then
        perform pgq._fail_too_large(
            target.topic, target.queue, target.max_message_bytes, refused.ordinal,
            cardinality(lengths), refused.content, refused.attributes, refused.as_text
        );
    end if;
    return largest;
end
$$;

comment on function pgq._check_chunk_size(pgq._write_target, integer[], bytea, text[], jsonb[]) is
'Refuses a chunk with a message that is larger than its topic or queue allows (22023); returns a bound
for its largest one.';
