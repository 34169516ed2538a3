create function pgq._spread_extent(topic text, stored_id bigint, segment integer, keyless integer)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    many constant integer := 5000;
    payloads jsonb[];
    keys text[];
    headers jsonb[];
    bodies bytea[];
    first_offset bigint := 1;
begin
    loop
        execute format(
            'select
                array_agg(m.payload order by m.log_offset),
                array_agg(m.key order by m.log_offset),
                array_agg(m.headers order by m.log_offset),
                array_agg(m.body order by m.log_offset)
            from pgq.message_%s as m
            where m.partition_id = $1 and m.log_offset >= $2 and m.log_offset < $2 + $3',
            segment
        )
        into payloads, keys, headers, bodies
        using stored_id, first_offset, many;
        exit when keys is null;

        perform pgq._publish_spread(topic, payloads, keys, headers, null, keyless, bodies);
        first_offset := first_offset + many;
    end loop;
end
$$;

comment on function pgq._spread_extent(text, bigint, integer, integer) is
'Publishes the messages of an extent by their keys, when the topic got more partitions since they
were stored; messages without a key go to the partition keyless.';
