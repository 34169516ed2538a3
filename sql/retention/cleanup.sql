create function pgq.cleanup()
returns setof pgq.cleanup_report
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
    moment timestamptz := pgq._clock();
    part text;
begin
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        raise exception 'cleanup needs READ COMMITTED'
            using errcode = '25001',
                hint = 'Call it in a transaction of its own.';
    end if;

    -- A part that meets a lock is undone and reported as busy, the others are done. What holds
    -- strong locks comes last.
    foreach part in array array[
        'jobs', 'effects', 'positions', 'writes', 'leftovers', 'closing', 'sealing', 'truncation'
    ] loop
        begin
            case part
                when 'jobs' then
                    return query
                    select r.* from pgq._clean_jobs(moment) as r;
                when 'effects' then
                    return query
                    select r.* from pgq._clean_effects() as r;
                when 'positions' then
                    return query
                    select r.* from pgq._clean_positions() as r;
                when 'writes' then
                    return query
                    select r.* from pgq._clean_writes(moment) as r;
                when 'leftovers' then
                    return query
                    select r.* from pgq._clean_leftovers(moment) as r;
                when 'closing' then
                    return query
                    select r.* from pgq._close_segments(started, horizon, moment) as r;
                when 'sealing' then
                    return query
                    select r.* from pgq._seal_segments(moment) as r;
                when 'truncation' then
                    return query
                    select r.* from pgq._truncate_segments(moment) as r;
            end case;
        exception
            when lock_not_available then
                return next row('busy', part, 1)::pgq.cleanup_report;
        end;
    end loop;
end
$$;

comment on function pgq.cleanup() is
'Does the housekeeping, and returns what was done, a row per thing.
It removes expired jobs and old dead letters, moves jobs whose worker was lost on its last attempt
to the dead ones, forgets the effects of jobs that have ended and bulk writes past their timeout,
opens new segments, and empties those that are older than their retention. Call it every minute or
so, from cron or pg_cron or any client; delivery never depends on it, disk space does. One call does
a bounded piece of work: a row with the action more says that there is more of it, so call again at
once. It waits 0.2 s at most for a lock; what met it is then undone and reported as busy, and the
next call goes on. Several at once do no harm.
Errors: 25001 not under READ COMMITTED.';
