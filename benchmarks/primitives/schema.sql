-- The published primitives: a counter row hands out offsets, a row per group holds its position,
-- and a queue is a table that workers delete from.
create table log_counter (
    id integer primary key,
    next_offset bigint not null
);

create table topic (
    id bigserial primary key,
    topic_id integer not null,
    c_offset bigint not null,
    payload bytea not null,
    created_at timestamptz not null default now(),
    unique (topic_id, c_offset)
);

create table consumer_offsets (
    group_id integer,
    topic_id integer,
    next_offset bigint not null,
    primary key (group_id, topic_id)
);

create table queue (
    id bigserial primary key,
    payload bytea not null,
    created_at timestamptz not null default now()
);

create table queue_archive (
    id bigint,
    payload bytea,
    created_at timestamptz
);

insert into log_counter (id, next_offset) values (1, 1);
