create function pgq.cleanup()
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set lock_timeout = '200ms'
set enable_seqscan = off
set jit = off
as $$
declare
    -- An xid above all that run now; null if this transaction had an id before.
    started pg_snapshot := pg_current_snapshot();
    horizon xid8 := case when pg_current_xact_id_if_assigned() is null then pg_current_xact_id()
    end;
    -- Before reading the clock: transactions below it that have ended wrote no later time.
    oldest_xid xid8 := pgq._oldest_xid(null);
    now_at timestamptz := pgq._clock();
    part text;
    objects int8multirange;
    attempt record;
    singly record;
    failure_ids bigint[] := array(select f.cleanup_failure_id from pgq.cleanup_failure as f);
    -- Subtransactions for what failed: past 64 that write, the snapshots of all other sessions get
    -- slow. With the first tries below they are 30 at most.
    max_tries integer := 18;
    -- The part that has waited longest to be run object by object is the first that is.
    chosen text := (
        select f.part
        from pgq.cleanup_failure as f
        where f.object is null
        order by f.cleanup_failure_id
        limit 1
    );
begin
    perform pgq._check_read_committed('cleanup');

    -- A part that meets a lock or an error is rolled back and reported; the others go on. Parts
    -- that lock rows of consumers and publishers come last, after those that may wait or take long.
    foreach part in array array[
        'jobs', 'effects', 'notes', 'subscriptions', 'workers', 'writes', 'dropped messages',
        'truncation', 'positions', 'windows', 'offsets', 'closing', 'sealing'
    ] loop
        objects := '{(,)}';
        if failure_ids <> '{}' then
            objects := objects - pgq._failed_objects(part);
        end if;
        select t.*
        into attempt
        from pgq._try_part(part, objects, started, horizon, oldest_xid, now_at) as t;

        if attempt.error is not null then
            select s.*
            into singly
            from pgq._clean_singly(
                part, attempt.error_code, attempt.error,
                case when coalesce(chosen, part) = part then max_tries else 0 end, started, horizon,
                oldest_xid, now_at
            ) as s;
            chosen := nullif(chosen, part);
            max_tries := max_tries - singly.tries;
            attempt.done := singly.done;
        elsif failure_ids <> '{}' then
            if attempt.error_code is null then
                perform pgq._forget_failures(part, null);
            else
                perform pgq._store_failure(part, null, null, null, now_at);
            end if;
        end if;
        return query select r.* from unnest(attempt.done) as r;
    end loop;

    if failure_ids <> '{}' then
        return query
        select r.*
        from pgq._retry_failures(failure_ids, max_tries, started, horizon, oldest_xid, now_at) as r;
    end if;
end
$$;

comment on function pgq.cleanup() is
'Does the housekeeping of pgq, and returns one row for each action.
Call it about every minute, from cron, pg_cron or any client; delivery never depends on it, disk
space does. One call does a bounded amount of work, and waits at most 0.2 s for a lock. Concurrent
calls are safe.
The actions:
- jobs expired: unfinished jobs of a queue, past its job_ttl, were removed;
- jobs died: jobs of a queue, whose worker was lost on the last attempt, became dead letters;
- dead letters removed: dead letters of a queue, past its retention, were removed;
- floor lowered: the low-water mark from which claims of a queue look for jobs was lowered, after
  the clock was set back;
- effects removed: records of `begin_effect` for jobs that have ended were removed;
- notes removed: snoozes and progress of jobs that have ended were removed;
- workers forgotten: workers without a heartbeat for a day were removed;
- positions trimmed: old positions of a group that are no longer needed were removed;
- offsets assigned: messages of a deferred topic that no group had consumed yet got their offsets;
- bulk write forgotten: it was not committed within its timeout, or its target was dropped;
- staged write removed: all staged data of an abandoned write was removed;
- dropped messages deleted: messages of a dropped topic, queue or write without a retention;
- segment sealed: new messages go to another segment from now on;
- segment closed: nothing can be added to it any more;
- payloads moved: payloads of unfinished jobs and dead letters went to another segment;
- segment truncated: it was past its retention, or not needed for max_bytes, and is empty now;
- segment busy: due as well, but a transaction reads it or works on its jobs; a later call retries;
- busy: a part of the work found an object locked and was rolled back; the next call retries it;
- failed: a part of the work failed and was rolled back, for one object, or for all objects. The
  target is like "jobs of q: 22P02", or "jobs: 22P02" for all; a warning has the message, for admins
  of the object;
- more: a part of the work has more to do; call again at once.
A part runs for all its objects at once. If it fails, it runs again for half of them, and so on, at
most 18 times in a call for all parts together; a part that gets no further try is the first in the
next call. Later calls try failed objects last, until they succeed; `list_cleanup_failures` has
them.
Errors: 25001 not under READ COMMITTED.';
