create function pgq.forget_worker(worker text, role text default null)
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
    where w.worker = forget_worker.worker collate "C"
        and w.role = coalesce(forget_worker.role collate "C", w.role)
        and pgq._may(w.role || admins);
    return found;
end
$$;

comment on function pgq.forget_worker(text, text) is
'Removes a worker that has ended from list_workers; false when the caller has none of that name.
A role removes its own workers, and those of roles whose privileges it has; the owner of pgq and who
has admin access to topic or queue * remove any. role: only that of this role, where several have
one of that name. A worker that is alive is there again with its next heartbeat.
Errors: 22004 a required argument is null, 22023 a bad argument, 40001 above READ COMMITTED when
another transaction was first (try again).';
