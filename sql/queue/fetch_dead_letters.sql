create function pgq.fetch_dead_letters(
    queue text,
    max_jobs integer default 100,
    after_died_at timestamptz default null,
    after_job_id bigint default null
)
returns setof pgq.dead_letter
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    target_id bigint;
    most bigint := coalesce(max_jobs, 100);
    dead pgq.dead_job;
    message pgq._stored_message;
begin
    perform pgq._check_count('max_jobs', most, 1, 1000000);
    if (after_died_at is null) <> (after_job_id is null) then
        raise exception '"after_died_at", "after_job_id": both or neither are needed'
            using errcode = '22023';
    end if;

    target_id := pgq._queue_id(queue collate "C", 'consume');

    for dead in
        select d.*
        from pgq.dead_job as d
        where d.queue_id = target_id
            and (d.died_at, d.job_id) > (
                coalesce(after_died_at, '-infinity'), coalesce(after_job_id, -1)
            )
        order by d.died_at, d.job_id
        limit most
    loop
        message := pgq._job_message(dead.job_id, dead.partition_id, dead.segment, dead.log_offset);

        return next row(
            queue, dead.job_id, dead.attempt, dead.last_error, message.published_at, dead.died_at,
            dead.priority, message.key, dead.label, message.headers, message.payload, message.body,
            dead.stops_key
        )::pgq.dead_letter;
    end loop;
end
$$;

comment on function pgq.fetch_dead_letters(text, integer, timestamptz, bigint) is
'Returns a page of the dead letters of a queue, the oldest first.
max_jobs: 1 to 1000000; by default 100. For the next page pass the died_at and job_id of the last
row as after_died_at and after_job_id; no row: that was the last page. redrive puts dead letters
back, purge_queue removes them. The view dead_letters shows those of all queues.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 bad max_jobs, or only one of
after_died_at and after_job_id, 40001 when retention removes what is being read (try again).';
