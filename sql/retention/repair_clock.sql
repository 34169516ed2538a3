create function pgq.repair_clock(
    longest_lease interval default '12 hours',
    max_rows integer default 10000
)
returns table (action text, target text, amount bigint)
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set lock_timeout = '1s'
set jit = off
as $$
declare
    longest interval := coalesce(longest_lease, '12 hours');
    most bigint := coalesce(max_rows, 10000);
    moment timestamptz;
    changed bigint;
begin
    perform pgq._check_interval('longest_lease', longest, false);
    perform pgq._check_count('max_rows', most::integer, 1, 100000);
    perform pgq._check_admin_of_all();
    perform pgq._check_read_committed('repair_clock');

    -- The transaction id first, then the clock: the floor relies on it.
    perform pg_current_xact_id();
    moment := pgq._clock();

    -- In the order of locks.
    return query select r.* from pgq._repair_schedules(moment, most) as r;
    return query select r.* from pgq._repair_groups(moment, most) as r;
    return query select r.* from pgq._repair_jobs(moment, longest, most) as r;
    return query select r.* from pgq._sweep_floors(0) as r;

    update pgq.worker as w
    set last_seen_at = moment
    where w.last_seen_at > moment + interval '5 seconds';
    get diagnostics changed = row_count;
    if changed > 0 then
        return query select 'workers set back', 'workers', changed;
    end if;

    if exists (select from pgq._ahead_schedules(moment))
        or exists (select from pgq._ahead_groups(moment))
        or exists (select from pgq._ahead_runs(moment))
        or exists (select from pgq._ahead_jobs(moment, longest, null))
    then
        return query select 'more', 'clock', 1::bigint;
    end if;
end
$$;

comment on function pgq.repair_clock(interval, integer) is
'Takes back what was written while the clock was ahead, once it is right, and returns what was done.
Hazard: it cuts a lease of a job that ends later than longest_lease from now to the lease of its
queue, since nothing tells when it began. A worker that extends it keeps it; one that does not may
find its job done by another as well. So name the longest lease that your workers ask for.
It changes, by the action that the row has:
- jobs set back: jobs of a queue that were enqueued by that clock without a delay or a run_at of
  their own, or given back by a nack and enqueued by it too;
- leases cut: those of jobs, and those of a group as topic/group, which keep their length;
- schedules set back: its next tick is the next one from now that was not written last. Of ticks
  that were written ahead, others than the last are written again when their time comes. Where
  missed is all, what is due next stays, since everything before was written;
- workers set back: they would look alive until then;
- floor lowered: see cleanup;
- more: something is left, after max_rows of a kind, or since it was locked; call again.
Left alone are jobs with a delay or a run_at of their own, and those that were given back by that
clock but enqueued by a right one: nothing tells these from what was delayed on purpose. So are jobs
of a schedule before the time of their tick. It looks at all jobs that wait for a later time.
Errors: 22023 a bad argument, 25001 not under READ COMMITTED, 42501 no permission, 55P03 waited 1 s
for a lock (call it again).';
