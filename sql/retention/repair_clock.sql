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
    now_at timestamptz;
    changed bigint;
begin
    perform pgq._check_interval('longest_lease', longest, false);
    perform pgq._check_count('max_rows', most::integer, 1, 100000);
    perform pgq._check_admin_of_all();
    perform pgq._check_read_committed('repair_clock');

    -- Take the transaction id before reading the clock: the low-water marks (floors) of queues rely
    -- on it.
    perform pg_current_xact_id();
    now_at := pgq._clock();

    -- The order of locks, so that this cannot deadlock.
    return query select r.* from pgq._repair_schedules(now_at, most) as r;
    return query select r.* from pgq._repair_groups(now_at, most) as r;
    return query select r.* from pgq._repair_jobs(now_at, longest, most) as r;
    return query select r.* from pgq._sweep_floors('{(,)}', 0) as r;

    -- What an idle worker sleeps for may have become due earlier.
    perform pgq._announce_queue(q.queue_id) from pgq.queue as q where q.notify;
    perform pgq._announce_topic(t.topic) from pgq.topic as t where t.notify;

    update pgq.worker as w
    set last_seen_at = now_at
    where w.last_seen_at > now_at + interval '5 seconds';
    get diagnostics changed = row_count;
    if changed > 0 then
        return query select 'workers set back', 'workers', changed;
    end if;

    if exists (select from pgq._ahead_schedules(now_at))
        or exists (select from pgq._ahead_groups(now_at))
        or exists (select from pgq._ahead_extents(now_at))
        or exists (select from pgq._ahead_jobs(now_at, longest, null))
    then
        return query select 'more', 'clock', 1::bigint;
    end if;
end
$$;

comment on function pgq.repair_clock(interval, integer) is
'Corrects times that were written while the clock was ahead, and returns what was done.
Call it once the clock is right again.
Hazard: a lease of a job that ends later than longest_lease (default 12 hours) from now is cut to
the lease of its queue, since its start is not recorded. If its worker does not extend it, another
worker may do the job as well. So pass the longest lease that your workers ask for.
The actions:
- jobs set back: jobs of a queue that were enqueued by that clock without a delay or a run_at of
  their own, or enqueued by it and given back by a nack;
- leases cut: leases of jobs; and leases of a group, as topic/group, which keep their length;
- schedules set back: the next tick is the next one from now that is not the last one written. Other
  ticks that were written ahead of time are written again when their time comes. If missed is all,
  the next tick stays, since all ticks before it were written;
- workers set back: heartbeats of workers, which would look alive until then;
- floor lowered: see cleanup;
- more: some rows are left, because of max_rows (of each kind; default 10000) or because they were
  locked; call again.
It leaves alone jobs with a delay or a run_at of their own, and jobs that were given back by that
clock but enqueued by a right one: they look like jobs that were delayed on purpose. It also leaves
alone jobs of a schedule before the time of their tick. It reads all jobs that wait for a later
time.
Errors: 22023 a bad argument, 25001 not under READ COMMITTED, 42501 no permission, 55P03 waited 1 s
for a lock (call it again).';
