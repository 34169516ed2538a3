create function pgq.forget_worker(worker text)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set lock_timeout = '1s'
as $$
#variable_conflict use_column
begin
    perform pgq._check_worker(forget_worker.worker collate "C");

    delete from pgq.worker as w
    where w.worker = forget_worker.worker collate "C";
    return found;
end
$$;

comment on function pgq.forget_worker(text) is
'Removes a worker that has ended from list_workers; false when there is none of that name.
A worker that is alive is there again with its next heartbeat.
Errors: 22004 a required argument is null, 22023 a bad argument, 40001 above READ COMMITTED when
another transaction was first (try again).';
