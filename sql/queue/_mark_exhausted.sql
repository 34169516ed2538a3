create function pgq._mark_exhausted(
    started pg_snapshot,
    horizon xid8,
    settled xid8,
    max_jobs integer
)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    note pgq.lowered_queue;
    budget integer := _mark_exhausted.max_jobs;
    seen integer;
    last_id bigint;
    wanted bigint[];
    marked bigint[];
begin
    for note in
        select n.*
        from pgq.lowered_queue as n
        order by n.queue_id
        for update skip locked
    loop
        -- A claim marks a job by the limit that it has read: the one before, if it began before the
        -- lower one was committed. So this waits for all that had an id before the note was seen.
        -- One that is too high is from before a restore into another cluster.
        if _mark_exhausted.horizon is not null
            and (
                note.horizon is null
                or note.horizon >= pg_snapshot_xmax(pg_current_snapshot())
            )
            and (
                pg_visible_in_snapshot(note.lowered_xid, _mark_exhausted.started)
                or note.lowered_xid >= pg_snapshot_xmax(pg_current_snapshot())
            )
        then
            note.horizon := _mark_exhausted.horizon;
            update pgq.lowered_queue as n
            set horizon = note.horizon
            where n.queue_id = note.queue_id;
        end if;
        continue when (note.horizon <= _mark_exhausted.settled) is not true;

        -- By their ids, in which they stay where they are, whatever becomes of them.
        select
            count(*),
            max(j.job_id),
            coalesce(
                array_agg(j.job_id) filter (
                    where j.queue_id = note.queue_id
                    and j.attempt >= q.max_attempts
                    and j.max_attempts is null
                    and not j.last_attempt
                ),
                '{}'
            )
        into seen, last_id, wanted
        from (
            select k.job_id, k.queue_id, k.attempt, k.last_attempt, k.max_attempts
            from pgq.job as k
            where k.job_id > note.marked_id
            order by k.job_id
            limit budget
        ) as j
        inner join pgq.queue as q on q.queue_id = note.queue_id;

        marked := array(
            select j.job_id
            from pgq.job as j
            where j.job_id = any(wanted)
            order by j.job_id
            for update skip locked
        );
        update pgq.job as j
        set last_attempt = true
        where j.job_id = any(marked);

        -- Somebody has one locked, or has just replaced it: it is looked at again when the others
        -- are done, and by the next cleanup at the earliest.
        note.missed_id := least(
            note.missed_id,
            (
                select min(w.job_id)
                from (select unnest(wanted) except select unnest(marked)) as w (job_id)
            )
        );
        if seen = budget then
            update pgq.lowered_queue as n
            set
                marked_id = last_id,
                missed_id = note.missed_id
            where n.queue_id = note.queue_id;
            return cardinality(marked) > 0 or note.missed_id is null;
        end if;
        budget := budget - seen;

        if note.missed_id is null then
            delete from pgq.lowered_queue as n
            where n.queue_id = note.queue_id;
        else
            update pgq.lowered_queue as n
            set
                marked_id = note.missed_id - 1,
                missed_id = null
            where n.queue_id = note.queue_id;
        end if;
    end loop;
    return false;
end
$$;

comment on function pgq._mark_exhausted(pg_snapshot, xid8, xid8, integer) is
'Marks jobs that have had all the attempts since the max_attempts of their queue was lowered, so
that they die like those whose last worker was lost: so many at most, and says whether there are
more.';
