-- A key has a row as long as it is taken: by its first unfinished job, which claims can see, by a
-- dead letter that stops the key, or by a wake-up record. Enqueues lock the row; only a redrive
-- updates it.
create table pgq.ordered_key (
    queue_id bigint not null,
    ordered_key text collate "C" not null,
    from_id bigint,
    primary key (queue_id, ordered_key)
);

comment on table pgq.ordered_key is
'Keys of ordered queues that are taken; without a row the next job of the key is the first.';
comment on column pgq.ordered_key.ordered_key is 'The key.';
comment on column pgq.ordered_key.from_id is
'Id of a redriven job, where the search for the next job starts though the id is lower; null:
none.';
