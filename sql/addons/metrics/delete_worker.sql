create function pgq.delete_worker(worker text, role text default null)
returns boolean
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set lock_timeout = '1s'
as $$
declare
    admins text[] := pgq._granted('topic', 0, 'admin') || pgq._granted('queue', 0, 'admin');
begin
    perform pgq._check_worker(worker collate "C");

    delete from pgq.worker as w
    where w.worker = delete_worker.worker collate "C"
        and w.role = coalesce(delete_worker.role collate "C", w.role)
        and pgq._may(w.role || admins);
    return found;
end
$$;

comment on function pgq.delete_worker(text, text) is
'Removes an ended worker from list_workers; false when the caller can remove none of that name.
A role can remove its own workers and those of roles whose privileges it has; the owner of pgq and
roles with admin access to topic or queue * can remove any. role: only the worker of this role, if
several roles have a worker of that name (default: all of them). A running worker reappears with its
next heartbeat.
Errors: 22004 a required argument is null, 22023 a bad argument, 40001 above READ COMMITTED when
another transaction was first (try again).';
