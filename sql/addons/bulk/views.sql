-- For clients that can only insert, such as JDBC writers. Columns are in the order of the
-- function's arguments, with types that a JDBC driver sends: text for uuid, jsonb and interval.

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

comment on view pgq.write_chunks is 'Always empty; each inserted row is a call of write_chunk.';
comment on column pgq.write_chunks.write_id is 'The id that begin_write returned.';
comment on column pgq.write_chunks.task is 'Number of the task, from 0.';
comment on column pgq.write_chunks.task_attempt is
'A text that is different for each attempt to run the task.';
comment on column pgq.write_chunks.chunk is 'Number of the chunk within its task, from 0.';
comment on column pgq.write_chunks.lengths is 'The length of each content, in bytes.';
comment on column pgq.write_chunks.packed_payloads is
'The contents as JSON texts, concatenated; null: they are raw bytes.';
comment on column pgq.write_chunks.keys is 'The key of each message; null: no keys.';
comment on column pgq.write_chunks.headers is
'The headers of each message, JSON objects; null: no headers.';
comment on column pgq.write_chunks.partition is 'The partition to publish to; null: see publish.';
comment on column pgq.write_chunks.delay is
'The delay of jobs, an interval; null: that of the queue.';
comment on column pgq.write_chunks.priority is 'The priority of jobs; null: 0.';
comment on column pgq.write_chunks.labels is 'The label of each job; null: no labels.';
comment on column pgq.write_chunks.last_chunk is
'True: this is the last chunk of its task; null: it is not.';
comment on column pgq.write_chunks.starts is
'The position of the first byte of each content, from 1; null: computed from lengths.';
comment on column pgq.write_chunks.packed_bodies is
'The contents as raw bytes, concatenated; null: they are JSON texts.';

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

comment on view pgq.publish_rows is 'Always empty; each inserted row is a call of publish.';
comment on column pgq.publish_rows.topic is 'The topic.';
comment on column pgq.publish_rows.payload is
'The content as JSON; null when the message has a body.';
comment on column pgq.publish_rows.key is 'The key of the message; null: none.';
comment on column pgq.publish_rows.headers is
'The headers of the message, a JSON object; null: none.';
comment on column pgq.publish_rows.partition is 'The partition to publish to; null: see publish.';
comment on column pgq.publish_rows.idempotency_key is
'Key by which a repeated publish is recognised, see publish; null: none.';
comment on column pgq.publish_rows.body is
'The content as raw bytes; null when the message has a payload.';

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

comment on view pgq.enqueue_rows is 'Always empty; each inserted row is a call of enqueue.';
comment on column pgq.enqueue_rows.queue is 'The queue.';
comment on column pgq.enqueue_rows.payload is 'The content as JSON; null when the job has a body.';
comment on column pgq.enqueue_rows.key is 'The key of the job; null: none.';
comment on column pgq.enqueue_rows.headers is 'The headers of the job, a JSON object; null: none.';
comment on column pgq.enqueue_rows.delay is
'Delay of the first attempt, an interval; null: that of the queue.';
comment on column pgq.enqueue_rows.run_at is 'The time at which the job is due; null: see delay.';
comment on column pgq.enqueue_rows.priority is '0 (first) to 9 (last); null: 0.';
comment on column pgq.enqueue_rows.label is
'A label by which claims can select the job; null: no label.';
comment on column pgq.enqueue_rows.idempotency_key is
'Key by which a repeated enqueue is recognised, see enqueue; null: none.';
comment on column pgq.enqueue_rows.unique_key is
'A key that only one unfinished job of the queue can have, see enqueue; null: none.';
comment on column pgq.enqueue_rows.max_attempts is
'Limit of attempts before the job becomes a dead letter; null: that of the queue.';
comment on column pgq.enqueue_rows.body is
'The content as raw bytes; null when the job has a payload.';
