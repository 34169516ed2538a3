create function pgq.schedule_cleanup(schedule text default '* * * * *')
returns bigint
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
declare
    cron_job_id bigint;
begin
    perform pgq._check_admin_of_all();
    if to_regprocedure('cron.schedule(text,text,text)') is null then
        raise exception 'pg_cron is not installed in this database'
            using errcode = '0A000',
                hint = 'Have a superuser run create extension pg_cron, or call pgq.cleanup() every'
                    ' minute in another way; in a database that pg_cron is not made for, use'
                    ' cron.schedule_in_database in the one that it is.';
    end if;

    -- pg_cron finds its job by the name: an existing one gets the new schedule.
    execute 'select cron.schedule($1, $2, $3)'
    into cron_job_id
    using 'pgq cleanup', coalesce(schedule, '* * * * *'), 'select count(*) from pgq.cleanup()';

    return cron_job_id;
end
$$;

comment on function pgq.schedule_cleanup(text) is
'Has pg_cron call cleanup, every minute by default; returns the id of the pg_cron job.
An existing pg_cron job gets the new schedule. It runs as the owner of pgq, which needs USAGE on the
schema cron. schedule: a cron expression for pg_cron, of five fields, in the time zone of
cron.timezone.
Errors: 0A000 pg_cron is not installed in this database, 22023 a bad schedule, 40001 above READ
COMMITTED when another transaction was first (try again), 42501 the caller has no admin access to
all topics and queues, or the owner of pgq may not use pg_cron.';
