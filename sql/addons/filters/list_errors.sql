create function pgq.list_errors(queue text, max_jobs integer default 100000)
returns table (
    error text,
    dead_letters bigint,
    oldest_at timestamptz,
    newest_at timestamptz
)
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
    most bigint := coalesce(max_jobs, 100000);
begin
    perform pgq._check_count('max_jobs', most, 1, 1000000);
    target_id := pgq._queue_id(queue collate "C", 'consume');

    return query
    select l.error, count(*), min(l.died_at), max(l.died_at)
    from (
        select d.died_at, left(split_part(rtrim(d.last_error, E' \t\r\n'), E'\n', -1), 300) as error
        from pgq.dead_job as d
        where d.queue_id = target_id
        order by d.died_at desc, d.job_id desc
        limit most
    ) as l
    group by l.error
    order by count(*) desc, l.error
    limit 1000;
end
$$;

comment on function pgq.list_errors(text, integer) is
'Groups the dead letters of a queue by the last line of their last error, the largest group first.
error: the first 300 characters of that line; null: no error. dead_letters: their number. oldest_at,
newest_at: when the first and the last of them died. It examines the newest max_jobs dead letters (1
to 1000000, by default 100000), and returns at most 1000 groups. Pass such a line to redrive or
purge_queue as error_contains.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 bad max_jobs.';
