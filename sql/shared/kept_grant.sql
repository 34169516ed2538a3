-- An upgrade cannot grant this itself: what the script of an extension grants counts as the
-- extension's own, and no dump has it.
create table pgq.kept_grant (
    statement text primary key
);

create constraint trigger kept_grant
after insert on pgq.kept_grant
deferrable initially deferred
for each row execute function pgq._give_back_grant();

comment on table pgq.kept_grant is
'What others were granted on functions and views that an upgrade makes anew: noted while it runs,
granted again when its transaction ends, then removed.';
comment on column pgq.kept_grant.statement is 'The GRANT.';
