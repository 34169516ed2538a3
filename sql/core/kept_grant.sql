-- An upgrade must not execute these GRANTs itself: privileges granted by an extension script count
-- as part of the extension, and dumps omit them.
create table pgq.kept_grant (
    statement text primary key
);

create constraint trigger kept_grant
after insert on pgq.kept_grant
deferrable initially deferred
for each row execute function pgq._give_back_grant();

comment on table pgq.kept_grant is
'GRANTs to other roles on functions and views that an upgrade recreates: saved while it runs,
executed again when its transaction ends, then deleted.';
comment on column pgq.kept_grant.statement is 'The GRANT statement.';
