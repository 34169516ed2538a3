-- Runs of messages that bulk writes store before they are committed.
alter type pgq._partition_state add attribute stored_partition_id bigint;
alter type pgq._group_state add attribute stored_partition_id bigint;
alter type pgq._claim_state add attribute stored_partition_id bigint;

create type pgq._run_place as (
    stored_partition_id bigint,
    next_offset bigint
);

alter table pgq.partition add column stored_partition_id bigint;
update pgq.partition set stored_partition_id = partition_id;
alter table pgq.partition alter column stored_partition_id set not null;

create index segment_range_segment on pgq.segment_range (segment, partition_id, first_offset);
create index segment_range_stored on pgq.segment_range (stored_partition_id);

alter table pgq.staged_write set logged;
alter table pgq.staged_task set logged;
alter table pgq.staged_chunk set logged;
alter table pgq.staged_chunk
add column digest bigint,
add column first_chunk integer;

create table pgq.staged_run (
    write_id uuid not null,
    task integer not null,
    first_chunk integer not null,
    partition integer not null,
    stored_partition_id bigint primary key,
    segment integer not null,
    partitions integer
);

create index staged_run_write on pgq.staged_run
(write_id, task, partition, first_chunk, stored_partition_id);
create index staged_run_segment on pgq.staged_run (segment);

create sequence pgq.run_id as bigint;

alter table pgq.bulk_write add column digest text collate "C";
