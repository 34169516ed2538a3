-- For clients that can only insert, JDBC writers among them. Columns stand in the order of the
-- function's arguments, with the types that a JDBC driver sends: text in the place of uuid, jsonb
-- and interval.

create view pgq.write_chunks as
select
    null::text as write_id,
    null::integer as task,
    null::text as task_attempt,
    null::integer as chunk,
    null::integer[] as lengths,
    null::bytea as packed_payloads,
    null::text[] as keys,
    null::text[] as headers,
    null::integer as partition,
    null::text as delay,
    null::integer as priority,
    null::text[] as labels,
    null::boolean as last_chunk,
    null::integer[] as starts,
    null::bytea as packed_bodies
where false;

create trigger write_chunks
instead of insert on pgq.write_chunks
for each row execute function pgq._write_chunk_row();

comment on view pgq.write_chunks is
'Always empty; a row that is inserted is a call of write_chunk.';
comment on column pgq.write_chunks.write_id is 'The id that begin_write returned.';
comment on column pgq.write_chunks.task is 'The number of the task, from 0.';
comment on column pgq.write_chunks.task_attempt is
'A text that is different for each attempt to run the task.';
comment on column pgq.write_chunks.chunk is 'The number of the chunk within its task, from 0.';
comment on column pgq.write_chunks.lengths is 'The length of each content, in bytes.';
comment on column pgq.write_chunks.packed_payloads is
'The contents as JSON texts, one after the other; null: they are raw bytes.';
comment on column pgq.write_chunks.keys is 'The key of each message; null: no keys.';
comment on column pgq.write_chunks.headers is
'The headers of each message, JSON objects; null: no headers.';
comment on column pgq.write_chunks.partition is 'The partition to publish to; null: see publish.';
comment on column pgq.write_chunks.delay is 'The delay of jobs, an interval; null: the queue''s.';
comment on column pgq.write_chunks.priority is 'The priority of jobs; null: 0.';
comment on column pgq.write_chunks.labels is 'The label of each job; null: no labels.';
comment on column pgq.write_chunks.last_chunk is
'Whether this is the last chunk of its task; null: it is not.';
comment on column pgq.write_chunks.starts is
'The place of the first byte of each content, from 1; null: found from lengths.';
comment on column pgq.write_chunks.packed_bodies is
'The contents as raw bytes, one after the other; null: they are JSON texts.';

create view pgq.publish_rows as
select
    null::text as topic,
    null::text as payload,
    null::text as key,
    null::text as headers,
    null::integer as partition,
    null::text as idempotency_key,
    null::bytea as body
where false;

create trigger publish_rows
instead of insert on pgq.publish_rows
for each row execute function pgq._publish_row();

comment on view pgq.publish_rows is
'Always empty; a row that is inserted is a call of publish.';
comment on column pgq.publish_rows.topic is 'The topic.';
comment on column pgq.publish_rows.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.publish_rows.key is 'The key of the message; null: none.';
comment on column pgq.publish_rows.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.publish_rows.partition is 'The partition to publish to; null: see publish.';
comment on column pgq.publish_rows.idempotency_key is
'What makes it the same when it comes again, see publish; null: nothing.';
comment on column pgq.publish_rows.body is 'Its content as raw bytes; null when it has a payload.';

create view pgq.enqueue_rows as
select
    null::text as queue,
    null::text as payload,
    null::text as key,
    null::text as headers,
    null::text as delay,
    null::timestamptz as run_at,
    null::integer as priority,
    null::text as label,
    null::text as idempotency_key,
    null::text as unique_key,
    null::integer as max_attempts,
    null::bytea as body
where false;

create trigger enqueue_rows
instead of insert on pgq.enqueue_rows
for each row execute function pgq._enqueue_row();

comment on view pgq.enqueue_rows is
'Always empty; a row that is inserted is a call of enqueue.';
comment on column pgq.enqueue_rows.queue is 'The queue.';
comment on column pgq.enqueue_rows.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.enqueue_rows.key is 'The key of the job; null: none.';
comment on column pgq.enqueue_rows.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.enqueue_rows.delay is
'An interval to the first attempt; null: the queue''s.';
comment on column pgq.enqueue_rows.run_at is 'When it is due; null: see delay.';
comment on column pgq.enqueue_rows.priority is '0 (first) to 9 (last); null: 0.';
comment on column pgq.enqueue_rows.label is 'What a claim may ask for; null: no label.';
comment on column pgq.enqueue_rows.idempotency_key is
'What makes it the same when it comes again, see enqueue; null: nothing.';
comment on column pgq.enqueue_rows.unique_key is
'Of which its queue has one unfinished job, see enqueue; null: no such key.';
comment on column pgq.enqueue_rows.max_attempts is
'Attempts before it is dead; null: what its queue says.';
comment on column pgq.enqueue_rows.body is 'Its content as raw bytes; null when it has a payload.';
