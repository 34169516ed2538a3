-- What no setting asks for costs calls that do a single job less: one column says it.
alter table pgq.queue
add column plain_enqueue boolean not null generated always as (
    not notify and not ordered and max_unfinished is null
) stored,
add column plain_claim boolean not null generated always as (
    not paused
    and not ordered
    and not subscribed
    and max_leased is null
    and max_leased_per_key is null
    and rate_limit is null
) stored;
