-- Deferred topics.
alter table pgq.topic add column deferred boolean not null default false;

alter table pgq.partition
add column deferred boolean not null default false,
add column left_segments integer[] not null default '{}',
add column layout integer generated always as (
    case when deferred then (partitions << 20) + (followed::integer << 19) + segment end
) stored;

alter type pgq.topic_info add attribute deferred boolean;
alter type pgq._partition_state add attribute deferred boolean;

create table pgq.assignment (
    partition_id bigint not null,
    seq bigint not null,
    next_xid xid8 not null,
    open_xids xid8[] not null,
    server_started timestamptz not null,
    system_identifier bigint not null,
    primary key (partition_id, seq)
);

create sequence pgq.staged_number as bigint;

create type pgq._staged_since as (
    seq bigint,
    lowest bigint,
    late_xids xid8 array,
    next_xid xid8,
    open_xids xid8 array,
    system_identifier bigint
);
