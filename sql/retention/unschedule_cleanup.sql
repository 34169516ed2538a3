create function pgq.unschedule_cleanup()
returns boolean
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
declare
    was_there boolean := false;
begin
    perform pgq._check_admin_of_all();
    if to_regclass('cron.job') is null then
        return false;
    end if;

    execute '
        select coalesce(bool_or(cron.unschedule(j.jobid)), false)
        from cron.job as j
        where j.jobname = $1
            and j.username = current_user
            and j.database = current_database()'
    into was_there
    using 'pgq cleanup';

    return was_there;
end
$$;

comment on function pgq.unschedule_cleanup() is
'Removes the job of schedule_cleanup from pg_cron; false when there is none, also without pg_cron.
Errors: 40001 above READ COMMITTED when another transaction was first (try again), 42501 the caller
has no admin access to all topics and queues, or the owner of pgq may not use pg_cron.';
