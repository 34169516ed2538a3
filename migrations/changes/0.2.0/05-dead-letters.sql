-- Dead-letter topics of consumer groups.
alter table pgq.consumer_group
add column max_attempts integer,
add column dead_letter_topic_id bigint references pgq.topic (topic_id);

alter table pgq.group_partition add column max_attempts integer;

create type pgq._attempts as (
    attempt integer,
    last_error text,
    tried_offset bigint,
    single_offset bigint
);

alter table pgq.group_position add column attempts pgq._attempts;

alter type pgq.group_info
add attribute max_attempts integer,
add attribute dead_letter_topic text;

alter type pgq._group_state
add attribute max_attempts integer,
add attribute attempt integer,
add attribute last_error text,
add attribute tried_offset bigint,
add attribute single_offset bigint;

-- Dead letters of queues, page by page.
create type pgq.dead_letter as (
    queue text,
    job_id bigint,
    attempt integer,
    last_error text,
    enqueued_at timestamptz,
    died_at timestamptz,
    priority integer,
    key text,
    label text,
    headers jsonb,
    payload jsonb,
    body bytea,
    stops_key boolean
);

-- pages of dead letters that died in one moment
drop index pgq.dead_job_queue;
create index dead_job_queue on pgq.dead_job (queue_id, died_at, job_id);

-- Attempts at messages are told to the member that gets them.
alter type pgq.leased_message add attribute attempt integer;
alter type pgq._claim_state add attribute attempt integer;
