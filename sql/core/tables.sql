create table pgq.acting (
    xid bigint primary key,
    own_access boolean not null default false
);

comment on table pgq.acting is
'Transactions that publish or enqueue what pgq was given before, see _act_for. Its rows are deleted
before commit.';
comment on column pgq.acting.xid is 'The transaction id.';
comment on column pgq.acting.own_access is
'Whether the access of the caller counts all the same: then only sizes are not checked.';

create table pgq.view_key (
    key uuid not null
);

-- No primary key: an index lookup would be slower than reading the only row. So it needs a replica
-- identity: without one, updates fail where all tables are published.
alter table pgq.view_key replica identity full;

insert into pgq.view_key (key)
values (gen_random_uuid());

comment on table pgq.view_key is
'The key that views pass to the functions that they call. A reader of a view may execute these
functions, but cannot read the key.';
