-- How a message moves
--
-- A topic has partitions. publish locks the row of one partition, reads the last offset stored
-- there, and inserts the next ones; the lock is held until the publisher commits, so the order of
-- offsets is the order of commits and there are no gaps. Nothing is updated on that way. A consumer
-- group has one position per topic partition. The positions are a journal: claim_offsets,
-- commit_offset and seek append a row, and the newest row counts. A reader is served by
-- fetch_range.
--
-- A queue hands each job to one worker at a time. enqueue stores the payload as a message and a
-- narrow row in job that points at it; claim_job leases jobs that are due by moving visible_at
-- ahead; ack, nack and archive_job need the lease token that the claim gave out. visible_at alone
-- says when a job may be claimed: a delay, a lease, a retry and a lost worker are one mechanism. A
-- unique key is a row in unique_job, which whatever ends the job that has it removes.
--
-- A schedule is a row that knows its next tick. run_schedules, which anybody may call, locks what
-- is due, enqueues or publishes it and moves the next tick ahead, all in one transaction.
--
-- An idempotency key is noted beside what it was given with; as long as the window of its queue or
-- topic lasts, what comes again under it is answered with what was noted.
--
-- Payloads of topics and queues stand in message, which is split into leaves called segments.
-- Topics and queues that keep their messages for the same time share a storage class, and each
-- class writes to one segment. cleanup opens the next segment from time to time and truncates those
-- that nobody needs, so nothing is deleted row by row.
create schema pgq;

comment on schema pgq is
'Messaging inside PostgreSQL: topics with consumer groups, queues of leased jobs, schedules.
Every function takes named arguments; errors carry an SQLSTATE of PostgreSQL or of class MQ.';
