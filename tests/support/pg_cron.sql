-- What calls of pg_cron answer, for tests of rules that hold on servers without it. That pg_cron
-- does what is asked of it is tested with itself, in tests/servers/test_pg_cron.py.
create schema cron;
create table cron.job (
    jobid bigint primary key default 1,
    jobname text unique,
    schedule text,
    command text,
    database text default current_database(),
    username text default current_user
);

create function cron.schedule(job_name text, schedule text, command text)
returns bigint
language sql
as $$
insert into cron.job (jobname, schedule, command) values ($1, $2, $3)
on conflict (jobname) do update set schedule = $2, command = $3
returning jobid
$$;

create function cron.unschedule(job_id bigint)
returns boolean
language sql
as $$
delete from cron.job where jobid = $1 returning true
$$;
