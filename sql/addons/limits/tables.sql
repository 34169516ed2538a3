create table pgq.claim_lock (
    queue_id bigint primary key,
    counted_xid xid8 not null,
    keys_xid xid8,
    keys_horizon xid8
);

comment on table pgq.claim_lock is
'Lock rows of queues that limit their claims, or did: one per queue, locked by each claim.
No foreign key to queue: drop_queue would lock the row by it before the jobs, and deadlock.';
comment on column pgq.claim_lock.counted_xid is
'The transaction that switched max_leased on last: jobs leased before have to be counted first.';
comment on column pgq.claim_lock.keys_xid is
'The same for max_leased_per_key; null: they have been counted.';
comment on column pgq.claim_lock.keys_horizon is
'Once all transactions below this one have ended, leased jobs are counted a second and last time;
null: the first count is still to come, or none is needed.';

-- A journal instead of one row that each claim updates: under an old snapshot all former versions
-- of that row would stay, and each claim would have to pass them.
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
'Journal of jobs handed out by queues that limit their claims; the row with the highest seq
counts.';
comment on column pgq.claim_count.seq is 'Rises by one with every change.';
comment on column pgq.claim_count.first_seq is 'The first row whose jobs may still be leased.';
comment on column pgq.claim_count.leased is
'The most jobs that may be leased now: ended ones are included until the next count.';
comment on column pgq.claim_count.job_ids is 'The jobs that this row adds.';
comment on column pgq.claim_count.counted_xid is
'See claim_lock; null: the queue has no max_leased.';
comment on column pgq.claim_count.horizon is
'Once all transactions below this one have ended, leased jobs are counted once more, since a claim
that did not know of max_leased may have been open; null: that is done.';
comment on column pgq.claim_count.job_cost is
'Cost of one job: the rate_interval in microseconds; null: no rate_limit so far.';
comment on column pgq.claim_count.credit is
'Credit to spend: each microsecond adds the rate_limit, up to the cost of rate_burst jobs.';
comment on column pgq.claim_count.refilled_at is 'Time up to which credit has been added.';

-- A journal for the same reason: one row per key in use, and another one for each change.
create table pgq.limited_key (
    queue_id bigint not null,
    limited_key text collate "C" not null,
    seq bigint not null,
    job_ids bigint[] not null,
    blocked_from text collate "C",
    primary key (queue_id, limited_key, seq)
);

comment on table pgq.limited_key is
'Journal of keys of queues with max_leased_per_key; the row with the highest seq counts. A key
without a row has no leased and no blocked jobs.';
comment on column pgq.limited_key.limited_key is 'The key, cut to 255 characters.';
comment on column pgq.limited_key.seq is 'Rises by one with every change.';
comment on column pgq.limited_key.job_ids is
'Jobs that hold a slot of the key, or did: leased ones, and unblocked ones that wait for a claim.';
comment on column pgq.limited_key.blocked_from is
'No blocked job of the key has a lower sort key (see _blocked_position); null: none is blocked.';
