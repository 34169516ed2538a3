-- Messages in bulk: many in a row.

create type pgq.packed_messages as (
    first_offset bigint,
    messages integer,
    contents bytea[],
    keys bytea[],
    published_micros bigint[],
    headers text[]
);
