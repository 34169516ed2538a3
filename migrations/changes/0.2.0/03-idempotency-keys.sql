-- Idempotency keys.
alter table pgq.storage_class add column for_keys boolean not null default false;
alter table pgq.topic add column idempotency_window interval not null default '1 day';
alter table pgq.queue add column idempotency_window interval not null default '1 day';
alter type pgq.topic_info add attribute idempotency_window interval;
alter type pgq.queue_info add attribute idempotency_window interval;

create type pgq._noted_key as (
    idempotency_key text collate "C",
    noted_at timestamptz,
    job_id bigint,
    partition integer,
    log_offset bigint
);

create type pgq._key_segments as (
    class_ids bigint array,
    segments integer array,
    written integer array
);

create type pgq._key_notes as (
    segments integer array,
    leaders integer array,
    job_ids bigint array,
    partitions integer array,
    log_offsets bigint array
);

create table pgq.idempotency (
    scope_id bigint not null,
    noted_at timestamptz not null,
    job_id bigint,
    log_offset bigint,
    segment integer not null,
    partition integer,
    idempotency_key text collate "C" not null
)
partition by list (segment);

create table pgq.former_window (
    scope_id bigint not null,
    idempotency_window interval not null,
    keep interval not null,
    noted_xid xid8 not null,
    horizon xid8,
    ends_at timestamptz
);

create unique index former_window_key on pgq.former_window
(scope_id, interval_send(idempotency_window));
alter table pgq.former_window replica identity full;

-- A leaf beside each one that there is. Those that were made after the installation are no part of
-- the extension, or a dump would leave out how they were made.
do $leaves$
declare
    leaf integer;
begin
    for leaf in
        select substring(c.relname from '[0-9]+$')::integer
        from pg_inherits as i
        inner join pg_class as c on c.oid = i.inhrelid
        where i.inhparent = 'pgq.message'::regclass
        order by 1
    loop
        execute format(
            'create table pgq.idempotency_%1$s (
                like pgq.idempotency, primary key (scope_id, idempotency_key)
            )',
            leaf
        );
        execute format(
            'alter table pgq.idempotency attach partition pgq.idempotency_%1$s
            for values in (%1$s)',
            leaf
        );
        execute format(
            'comment on table pgq.idempotency_%1$s is ''Segment %1$s of the idempotency keys.''',
            leaf
        );
        if leaf > 15 and exists (select from pg_extension where extname = 'pgq') then
            execute format('alter extension pgq drop table pgq.idempotency_%s', leaf);
        end if;
    end loop;
end
$leaves$;
