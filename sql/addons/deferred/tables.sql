-- A journal like group_position: the row with the highest seq is current. It only narrows the
-- search: a staged message is one that has not been moved yet, and without a usable row here all
-- staged messages are scanned.
create table pgq.assignment (
    partition_id bigint not null,
    seq bigint not null,
    next_xid xid8 not null,
    open_xids xid8[] not null,
    server_started timestamptz not null,
    system_identifier bigint not null,
    primary key (partition_id, seq)
);

comment on table pgq.assignment is
'Up to which transaction the staged messages of a partition have got offsets.';
comment on column pgq.assignment.partition_id is 'The partition.';
comment on column pgq.assignment.seq is 'Rises by one with each row of the partition.';
comment on column pgq.assignment.next_xid is
'Messages of transactions below this xid have got offsets, except for those of open_xids.';
comment on column pgq.assignment.open_xids is 'Transactions below next_xid that were still open.';
comment on column pgq.assignment.server_started is
'Start time of the server; system_identifier is compared only when this has changed.';
comment on column pgq.assignment.system_identifier is
'System identifier of the server; on another one (after a restore, perhaps) xids mean nothing.';

-- The order of staged messages; see _staged_since.
create sequence pgq.staged_number as bigint;

comment on sequence pgq.staged_number is
'Numbers of publishing calls to deferred topics, in the order of the calls.';
