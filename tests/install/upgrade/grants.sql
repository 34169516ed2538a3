-- what somebody granted
grant execute on function pgq.changes, pgq.takes_less, pgq.goes, pgq.inform to pgq_app;
grant execute on function pgq.takes_other to pgq_app with grant option;
grant execute on function pgq.changes to public;
grant select on pgq.samples, pgq.notes to pgq_app;
grant select (sample_id) on pgq.sample_ids to pgq_app;
-- the same by two
grant usage on schema pgq to pgq_app;
grant execute on function pgq.inform to pgq_app with grant option;
grant execute on function pgq.inform to public;
set role pgq_app;
grant execute on function pgq.inform to public;
reset role;
revoke usage on schema pgq from pgq_app;
