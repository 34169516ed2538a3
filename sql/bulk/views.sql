-- For clients that can only insert, JDBC writers among them. Columns have the types that a JDBC
-- driver sends: text where the functions have uuid, jsonb or interval.

create view pgq.write_chunks as
select
    null::text as write_id,
    null::integer as task,
    null::text as task_attempt,
    null::integer as chunk,
    null::bytea as packed,
    null::integer[] as lengths,
    null::text[] as keys,
    null::text[] as headers,
    null::text[] as labels,
    null::integer as partition,
    null::integer as priority,
    null::text as delay,
    null::boolean as is_json,
    null::boolean as last,
    null::integer[] as starts
where false;

create trigger write_chunks
instead of insert on pgq.write_chunks
for each row execute function pgq._write_chunk_row();

comment on view pgq.write_chunks is
'Always empty; a row that is inserted is a call of write_chunk.';
comment on column pgq.write_chunks.write_id is 'What begin_write returned.';
comment on column pgq.write_chunks.task is 'The number of the task, from 0.';
comment on column pgq.write_chunks.task_attempt is 'What tells the attempts of a task apart.';
comment on column pgq.write_chunks.chunk is 'The number of the chunk within its task, from 0.';
comment on column pgq.write_chunks.packed is 'The contents, one behind the other.';
comment on column pgq.write_chunks.lengths is 'The length of each content, in bytes.';
comment on column pgq.write_chunks.keys is 'The key of each message; null: no keys.';
comment on column pgq.write_chunks.headers is
'The headers of each message, JSON objects; null: no headers.';
comment on column pgq.write_chunks.labels is 'The label of each job; null: no labels.';
comment on column pgq.write_chunks.partition is 'The partition to publish to; null: see publish.';
comment on column pgq.write_chunks.priority is 'The priority of jobs; null: 0.';
comment on column pgq.write_chunks.delay is 'The delay of jobs, an interval; null: the queue''s.';
comment on column pgq.write_chunks.is_json is
'Whether the contents are JSON; null or false: bytes.';
comment on column pgq.write_chunks.starts is
'Where each content begins in packed, from 1; null: to be found from lengths.';
comment on column pgq.write_chunks.last is 'Whether this is the last chunk of its task.';

create view pgq.publish_rows as
select
    null::text as topic,
    null::text as key,
    null::text as payload,
    null::bytea as body,
    null::text as headers,
    null::integer as partition
where false;

create trigger publish_rows
instead of insert on pgq.publish_rows
for each row execute function pgq._publish_row();

comment on view pgq.publish_rows is
'Always empty; a row that is inserted is a call of publish.';
comment on column pgq.publish_rows.topic is 'The topic.';
comment on column pgq.publish_rows.key is 'The key of the message; null: none.';
comment on column pgq.publish_rows.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.publish_rows.body is 'Its content as raw bytes; null when it has a payload.';
comment on column pgq.publish_rows.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.publish_rows.partition is 'The partition to publish to; null: see publish.';

create view pgq.enqueue_rows as
select
    null::text as queue,
    null::text as key,
    null::text as payload,
    null::bytea as body,
    null::text as headers,
    null::text as label,
    null::integer as priority,
    null::text as delay,
    null::timestamptz as run_at
where false;

create trigger enqueue_rows
instead of insert on pgq.enqueue_rows
for each row execute function pgq._enqueue_row();

comment on view pgq.enqueue_rows is
'Always empty; a row that is inserted is a call of enqueue.';
comment on column pgq.enqueue_rows.queue is 'The queue.';
comment on column pgq.enqueue_rows.key is 'The key of the job; null: none.';
comment on column pgq.enqueue_rows.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.enqueue_rows.body is 'Its content as raw bytes; null when it has a payload.';
comment on column pgq.enqueue_rows.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.enqueue_rows.label is 'What a claim may ask for; null: no label.';
comment on column pgq.enqueue_rows.priority is '0 (first) to 9 (last); null: 0.';
comment on column pgq.enqueue_rows.delay is
'An interval to the first delivery; null: the queue''s.';
comment on column pgq.enqueue_rows.run_at is 'When it is due; null: see delay.';
