create function pgq._keeps_snapshot()
returns boolean
language sql stable parallel safe
as $$
select current_setting('transaction_isolation') in ('repeatable read', 'serializable')
$$;

comment on function pgq._keeps_snapshot() is
'Whether the transaction reads all along as of its first statement, and so may miss what others have
committed since.';
