create type pgq._newest_message as (
    log_offset bigint,
    published_at timestamptz
);

comment on type pgq._newest_message is
'The offset and publish time of the last message of a range.';

create type pgq._stored_message as (
    log_offset bigint,
    published_at timestamptz,
    key text,
    headers jsonb,
    payload jsonb,
    body bytea
);

comment on type pgq._stored_message is 'A message as it is stored.';

create type pgq._fit as (
    last_offset bigint,
    bytes bigint,
    cut_short boolean
);

comment on type pgq._fit is 'How far a reader gets with a number of bytes, see the function _fit.';

create type pgq._noted_key as (
    idempotency_key text collate "C",
    ends_at timestamptz,
    job_id bigint,
    partition integer,
    log_offset bigint
);

comment on type pgq._noted_key is 'An idempotency key, and the job or message that it stands for.';

create type pgq._key_segments as (
    class_ids bigint array,
    segments integer array,
    written integer array
);

comment on type pgq._key_segments is
'Where the keys of a queue or topic stand: storage classes, their segments, and those segments
(written) into which new keys are inserted.';

-- Flat arrays, because they are read element by element.
create type pgq._key_notes as (
    segments integer array,
    leaders integer array,
    job_ids bigint array,
    partitions integer array,
    log_offsets bigint array
);

comment on type pgq._key_notes is
'The result of _note_keys. segments: where new keys were inserted. leaders: for each element of the
batch its own number if its key is new, the number of the first element with the same key, or -n for
the nth key that was found. job_ids, partitions, log_offsets: the jobs or messages of the keys that
were found.';
