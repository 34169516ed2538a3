create type pgq._newest_message as (
    log_offset bigint,
    published_at timestamptz
);

comment on type pgq._newest_message is 'Which is the last message of a range, and from when.';

create type pgq._stored_message as (
    log_offset bigint,
    published_at timestamptz,
    key text,
    headers jsonb,
    payload jsonb,
    body bytea
);

comment on type pgq._stored_message is 'A message as it is stored.';

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
'Where the keys of a queue or topic stand: in these segments of these classes; new ones are written
to some of them.';

-- Flat arrays: they are read element by element.
create type pgq._key_notes as (
    segments integer array,
    leaders integer array,
    job_ids bigint array,
    partitions integer array,
    log_offsets bigint array
);

comment on type pgq._key_notes is
'What became of the keys of a batch: to which segments the new ones were written; for each place its
own number if it is new, that of the place that has the same key, or -n for the nth of those that
were found; and what these stand for.';
