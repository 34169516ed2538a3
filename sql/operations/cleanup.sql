create function pgq.cleanup()
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
    -- Before this transaction has an id of its own, which would hold the horizon back.
    started pg_snapshot := pg_current_snapshot();
    moment timestamptz := pgq._clock();
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'cleanup needs READ COMMITTED'
            using errcode = '25001',
                hint = 'Call it in a transaction of its own.';
    end if;

    -- What holds strong locks comes last.
    begin
        return query
        select r.* from pgq._clean_jobs(moment) as r;
        return query
        select r.* from pgq._clean_positions() as r;
        return query
        select r.* from pgq._close_segments(started) as r;
        return query
        select r.* from pgq._seal_segments(moment) as r;
        return query
        select r.* from pgq._truncate_segments(moment) as r;
    exception
        when lock_not_available then
            return next row('busy', 'cleanup', 1)::pgq.cleanup_report;
    end;
end
$$;

comment on function pgq.cleanup() is
'Does the housekeeping, and returns what was done: a row per thing, none when there was nothing to
do. It removes expired jobs and old dead letters, moves jobs whose worker was lost on its last
attempt to the dead ones, opens new segments, and empties those that are older than their
retention. Call it every minute or so, from cron or pg_cron or any client; delivery never depends
on it, disk space does. It waits 0.2 s at most for a lock and reports busy then; the next call
goes on. Several at once do no harm.
Errors: 25001 not under READ COMMITTED.';
