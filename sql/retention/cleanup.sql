create function pgq.cleanup()
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set lock_timeout = '200ms'
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    -- An id that is higher than all that run now: not if this transaction had one before.
    started pg_snapshot := pg_current_snapshot();
    horizon xid8 := case
        when pg_current_xact_id_if_assigned() is null then pg_current_xact_id()
    end;
    -- Before the clock is read: what those have written who have ended is not later than that.
    settled xid8 := pgq._settled_xid(null);
    moment timestamptz := pgq._clock();
    part text;
begin
    perform pgq._check_read_committed('cleanup');

    -- A part that meets a lock is undone and reported as busy, the others are done. What locks
    -- rows that consumers and publishers need comes last: behind all that may wait or take long.
    foreach part in array array[
        'jobs',
        'effects',
        'subscriptions',
        'workers',
        'writes',
        'leftovers',
        'truncation',
        'positions',
        'windows',
        'offsets',
        'closing',
        'sealing'
    ] loop
        begin
            case part
                when 'jobs' then
                    return query
                    select r.action, pgq._shown_target(r.target), r.amount
                    from pgq._clean_jobs(started, horizon, settled, moment) as r;
                when 'effects' then
                    return query
                    select r.* from pgq._clean_effects() as r;
                when 'subscriptions' then
                    perform pgq._clean_subscriptions();
                when 'workers' then
                    return query
                    select r.* from pgq._clean_workers(moment) as r;
                when 'positions' then
                    return query
                    select r.action, pgq._shown_target(r.target), r.amount
                    from pgq._clean_positions() as r;
                when 'writes' then
                    return query
                    select r.* from pgq._clean_writes(moment) as r;
                when 'leftovers' then
                    return query
                    select r.*
                    from pgq._clean_leftovers(started, horizon, settled, moment) as r;
                when 'windows' then
                    perform pgq._clean_windows(started, horizon, settled, moment);
                when 'offsets' then
                    return query
                    select r.action, pgq._shown_target(r.target), r.amount
                    from pgq._assign_staged() as r;
                when 'closing' then
                    return query
                    select r.*
                    from pgq._close_segments(started, horizon, settled, moment) as r;
                when 'sealing' then
                    return query
                    select r.* from pgq._seal_segments(moment) as r;
                when 'truncation' then
                    return query
                    select r.* from pgq._truncate_segments(moment) as r;
            end case;
        exception
            when lock_not_available then
                return next row('busy', part, 1)::pgq.cleanup_action;
        end;
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
- leftovers removed: what a segment had from a time without a retention, and is not kept any more;
- segment sealed: new messages go to another segment from now on;
- segment closed: nothing is added to it any more;
- payloads moved: those of jobs that live on, and of dead letters, to another segment;
- segment truncated: it is older than its retention, or not needed for max_bytes, and empty now;
- segment busy: it is due as well, but somebody reads it or works on its jobs; a later call goes on;
- busy: a part of the work met a lock; what it did is undone, and the next call does it;
- more: a part of the work has more to do than one call does; call again at once.
Errors: 25001 not under READ COMMITTED.';
