create function pgq._keeps_snapshot()
returns boolean
language sql stable parallel safe
as $$
select current_setting('transaction_isolation') in ('repeatable read', 'serializable')
$$;

comment on function pgq._keeps_snapshot() is
'Whether the transaction keeps the snapshot of its first statement (above READ COMMITTED), and so
may not see rows that were committed since.';
