-- How a message moves
--
-- A topic has partitions. publish locks the row of one partition, reads the last offset stored
-- there, and inserts the next ones; the lock is held until the publisher commits, so the order of
-- offsets is the order of commits and there are no gaps. publish updates no row. A consumer group
-- has one position per topic partition. The positions are a journal: claim_offsets, commit_offset
-- and seek append a row, and the newest row counts. Readers call fetch_range.
--
-- A queue leases each job to one worker at a time. enqueue stores the payload as a message and a
-- narrow row in job that points at it; claim_job leases jobs that are due by moving visible_at
-- ahead; ack, nack and archive_job need the lease token that the claim returned. visible_at alone
-- decides when a job may be claimed: a delay, a lease, a retry and a lost worker are one mechanism
-- (a visibility timeout). A unique key is a row in unique_job, deleted by the call that ends its
-- job.
--
-- A schedule is a row with its next tick. run_schedules, which any client may call, locks the
-- schedules that are due, enqueues or publishes their jobs or messages and moves the next tick
-- ahead, all in one transaction.
--
-- An idempotency key is stored with the job or message that it was given with. Within the window of
-- the queue or topic, another call with the same key returns that job or message.
--
-- Payloads of topics and queues are stored in message, a table partitioned into leaves; a leaf in
-- use is called a segment. Topics and queues with the same retention share a storage class, and
-- each class writes to one segment. cleanup opens the next segment from time to time and truncates
-- segments that are no longer needed, so messages are not deleted row by row.
create schema pgq;

comment on schema pgq is
'Messaging inside PostgreSQL: topics with consumer groups, queues of leased jobs, schedules.
Every function takes named arguments; errors have an SQLSTATE of PostgreSQL or of class MQ.';
