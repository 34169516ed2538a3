-- Ordered keys.
alter table pgq.queue
add column ordered boolean not null default false,
add column after_dead_letter text collate "C" not null default 'continue';

alter type pgq.queue_info add attribute ordered boolean;
alter type pgq.queue_info add attribute after_dead_letter text;

alter table pgq.job
add column ordered_key text collate "C",
add column due_at timestamptz;

-- The index is partial, and no row has a key yet: it takes one look at the jobs.
create index job_ordered on pgq.job (queue_id, ordered_key, (job_id + 0))
where ordered_key is not null;

alter table pgq.dead_job
add column ordered_key text collate "C",
add column stops_key boolean not null default false;

alter table pgq.queue_floor add column note_floor timestamptz;

create table pgq.ordered_key (
    queue_id bigint not null,
    ordered_key text collate "C" not null,
    from_id bigint,
    primary key (queue_id, ordered_key)
);

create table pgq.ordered_note (
    queue_id bigint not null,
    look_at timestamptz not null,
    ordered_key text collate "C" not null,
    after_id bigint not null,
    tries integer not null,
    primary key (queue_id, look_at, ordered_key, after_id)
);

create type pgq._ended_job as (
    job_id bigint,
    queue_id bigint,
    unique_key text collate "C",
    ordered_key text collate "C"
);
