create table pgq.claim_lock (
    queue_id bigint primary key references pgq.queue (queue_id) on delete cascade,
    counted_xid xid8 not null
);

comment on table pgq.claim_lock is
'One row per queue that limits its claims, or did: locked by each of them.';
comment on column pgq.claim_lock.counted_xid is
'Which transaction switched max_leased on last: what was leased before has to be found first.';

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

comment on column pgq.queue.subscribed is
'Whether it may have rows in job_run, at which a claim then looks.';
