create table pgq.claim_lock (
    queue_id bigint primary key references pgq.queue (queue_id) on delete cascade,
    counted_xid xid8 not null,
    keys_xid xid8,
    keys_horizon xid8
);

comment on table pgq.claim_lock is
'One row per queue that limits its claims, or did: locked by each of them.';
comment on column pgq.claim_lock.counted_xid is
'Which transaction switched max_leased on last: what was leased before has to be found first.';
comment on column pgq.claim_lock.keys_xid is
'The same for max_leased_per_key; null: that is done.';
comment on column pgq.claim_lock.keys_horizon is
'Once all transactions below this one have ended, it is done for the last time; null: it is yet to
be done for the first time, or nothing is to be done.';

-- Not one row that each claim updates: while an old snapshot is held, each would have to pass all
-- its former versions.
create table pgq.claim_count (
    queue_id bigint not null,
    seq bigint not null,
    first_seq bigint not null,
    leased integer not null,
    job_ids bigint[] not null,
    counted_xid xid8,
    horizon xid8,
    job_cost bigint,
    credit numeric,
    refilled_at timestamptz,
    primary key (queue_id, seq)
);

comment on table pgq.claim_count is
'What queues that limit their claims have handed out, as a journal. The row with the highest seq
counts.';
comment on column pgq.claim_count.seq is 'Rises by one with every change.';
comment on column pgq.claim_count.first_seq is
'With which row the jobs begin that may still be leased.';
comment on column pgq.claim_count.leased is
'How many these are, at most: those that have ended since count until somebody looks.';
comment on column pgq.claim_count.job_ids is 'Those that this row adds.';
comment on column pgq.claim_count.counted_xid is
'See claim_lock; null: the queue has no max_leased.';
comment on column pgq.claim_count.horizon is
'Once all transactions below this one have ended, what is leased is looked for once more: a claim
that knew no max_leased may have been under way. Null: that is done.';
comment on column pgq.claim_count.job_cost is
'What a job costs: the microseconds of the rate_interval; null: there was no rate_limit yet.';
comment on column pgq.claim_count.credit is
'What there is to spend: each microsecond adds the rate_limit, up to rate_burst jobs.';
comment on column pgq.claim_count.refilled_at is 'Up to when that has been added.';

-- A journal for the same reason: one row per key that is in use, and another one for each change.
create table pgq.limited_key (
    queue_id bigint not null,
    limited_key text collate "C" not null,
    seq bigint not null,
    job_ids bigint[] not null,
    parked_from text collate "C",
    primary key (queue_id, limited_key, seq)
);

comment on table pgq.limited_key is
'Keys of queues with max_leased_per_key, as a journal. The row with the highest seq counts; without
one no job of the key is leased, and none is parked.';
comment on column pgq.limited_key.limited_key is 'The key: its first 255 characters.';
comment on column pgq.limited_key.seq is 'Rises by one with every change.';
comment on column pgq.limited_key.job_ids is
'Jobs that have a place, or had: leased ones, and those that have come up for the next claims.';
comment on column pgq.limited_key.parked_from is
'No parked job of the key stands before this place; null: none is parked.';
