create function pgq.fetch_archived_jobs(queue text, max_jobs integer default 100)
returns setof pgq.archived_job
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    -- Pages that are read: the last ones of each segment, and of all segments together.
    most_each constant bigint := 200;
    most_pages constant bigint := 1000;
    page_size bigint := current_setting('block_size')::bigint;
    jobs bigint := coalesce(max_jobs, 100);
    target pgq.queue;
    done pgq.job_archive;
    message pgq._stored_message;
begin
    perform pgq._check_count('max_jobs', jobs, 1, 10000);
    perform pgq._check_access(null, queue collate "C", 'consume');

    select q.*
    into target
    from pgq.queue as q
    where q.queue = fetch_archived_jobs.queue collate "C";

    if target.queue_id is null then
        perform pgq._fail_unknown_queue(queue collate "C");
    end if;

    for done in
        select a.*
        from (
            -- Most jobs end in the youngest segments of the queue's own storage class.
            select
                s.segment, s.pages,
                sum(least(s.pages, most_each)) over (
                    order by s.is_own desc, s.opened_at desc, s.segment
                ) as pages_until
            from (
                select
                    o.segment, o.opened_at, o.storage_class_id = c.storage_class_id as is_own,
                    pg_relation_size(to_regclass('pgq.job_archive_' || o.segment)) / page_size
                        as pages
                from pgq.segment as o
                left join pgq.segment as c on c.segment = target.segment
            ) as s
        ) as t
        cross join lateral pgq._archive_tail(
            t.segment, greatest(t.pages - most_each, 0), target.queue_id, jobs
        ) as a
        where t.pages > 0 and t.pages_until <= most_pages
        order by a.ended_at desc, a.job_id desc
        limit jobs
    loop
        message := pgq._job_message(
            done.job_id, coalesce(done.partition_id, target.partition_id), done.segment,
            coalesce(done.log_offset, done.job_id)
        );

        return next row(
            queue, done.job_id, done.outcome, done.attempt, message.published_at, done.ended_at,
            done.result, done.last_error, message.key, done.label, message.headers, message.payload,
            message.body
        )::pgq.archived_job;
    end loop;
end
$$;

comment on function pgq.fetch_archived_jobs(text, integer) is
'Returns the archived jobs of a queue that ended last, the newest first.
max_jobs: 1 to 10000; by default 100. It reads only the end of the archive: the last 200 pages of
each segment, 1000 pages in all, which hold tens of thousands of jobs, including those of other
queues. Its duration does not depend on the size of the archive. It does not find older jobs: the
view archived_jobs has them, but a query of that view scans the whole archive.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 bad max_jobs, 40001 when
retention removes what is being read (try again).';
