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
    -- An id that is higher than all that run now: not if this transaction had one before.
    started pg_snapshot := pg_current_snapshot();
    horizon xid8 := case when pg_current_xact_id_if_assigned() is null then pg_current_xact_id()
    end;
    -- Before the clock is read: what those have written who have ended is not later than that.
    settled xid8 := pgq._settled_xid(null);
    moment timestamptz := pgq._clock();
    part text;
    done pgq.cleanup_action[];
    place text;
begin
    perform pgq._check_read_committed('cleanup');

    -- A part that meets a lock or an error is undone and reported, the others are done. What locks
    -- rows that consumers and publishers need comes last: behind all that may wait or take long.
    foreach part in array array[
        'jobs', 'effects', 'subscriptions', 'workers', 'writes', 'dropped messages', 'truncation',
        'positions', 'windows', 'offsets', 'closing', 'sealing'
    ] loop
        begin
            done := array(
                select r
                from pgq._clean_part(part, started, horizon, settled, moment) as r
            );
        exception
            when lock_not_available or deadlock_detected then
                done := array[row('busy', part, 1)::pgq.cleanup_action];
            -- Not query_canceled, which ends the call. A full disk is no exception: truncation, a
            -- later part, is what gives space back.
            when others then
                done := array[row('failed', part || ': ' || sqlstate, 1)::pgq.cleanup_action];
                get stacked diagnostics place = pg_exception_context;
                raise warning 'cleanup could not do its part "%"', part
                    using errcode = sqlstate,
                        detail = case
                            -- It may name what the caller must not know.
                            when pgq._may('{}') then format('%s. %s', sqlerrm, place)
                            else format('SQLSTATE %s; the owner of pgq is told more.', sqlstate)
                        end,
                        hint = 'What it did is undone, the other parts are done.';
        end;
        return query select r.* from unnest(done) as r;
    end loop;
end
$$;

comment on function pgq.cleanup() is
'Does the housekeeping, and returns what was done, a row per thing.
Call it every minute or so, from cron or pg_cron or any client; delivery never depends on it, disk
space does. One call does a bounded piece of work, and waits 0.2 s at most for a lock. Several at
once do no harm.
What it does, by the action that the row has:
- jobs expired: unfinished jobs of a queue, past its job_ttl, are removed;
- jobs died: jobs of a queue, whose worker was lost on the last attempt, are dead letters now;
- dead letters removed: those of a queue, past its retention;
- floor lowered: claims of a queue begin further in front again, after the clock went back;
- effects removed: notes of `begin_effect` about jobs that have ended;
- workers forgotten: those that sent no heartbeat for a day;
- positions trimmed: old positions of a group, which nothing needs any more, are removed;
- offsets assigned: messages of a deferred topic, which nobody consumed yet, got their offsets;
- bulk write forgotten: it was not committed within its timeout, or what it writes to was dropped;
- staged write removed: nothing is left of what was staged for a write that was given up;
- dropped messages deleted: of a topic, queue or write without a retention that was dropped;
- segment sealed: new messages go to another segment from now on;
- segment closed: nothing is added to it any more;
- payloads moved: those of jobs that live on, and of dead letters, to another segment;
- segment truncated: it is older than its retention, or not needed for max_bytes, and empty now;
- segment busy: it is due as well, but somebody reads it or works on its jobs; a later call goes on;
- busy: a part of the work met a lock; what it did is undone, and the next call does it;
- failed: a part of the work met an error; what it did is undone. The target is the part and the
  SQLSTATE, like "jobs: 22P02"; a warning has the message, for the owner of pgq;
- more: a part of the work has more to do than one call does; call again at once.
Errors: 25001 not under READ COMMITTED.';
