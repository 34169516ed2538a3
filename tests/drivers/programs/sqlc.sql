-- sqlc.sql
-- name: Publish :one
select log_offset::bigint
from pgq.publish(
    topic => @topic::text,
    payload => cast(@payload::text as jsonb),
    key => sqlc.narg('key')::text
);

-- name: Consume :many
select log_offset, key, payload::text as payload
from pgq.consume(topic => @topic::text, consumer_group => @consumer_group::text);

-- name: ClaimJobs :many
select job_id, lease_token::text as lease_token, payload::text as payload
from pgq.claim_job(queue => @queue::text, max_jobs => @max_jobs::integer);

-- name: Ack :one
select pgq.ack(
    job_id => @job_id::bigint,
    lease_token => cast(@lease_token::text as uuid)
)::boolean as acked;
