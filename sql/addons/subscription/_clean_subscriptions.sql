create function pgq._clean_subscriptions(objects int8multirange)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
begin
    for target in
        select q.queue_id
        from pgq.queue as q
        where q.subscribed
            and q.queue_id <@ objects
            and not exists (select from pgq.subscription as s where s.queue_id = q.queue_id)
            and not exists (select from pgq.job_extent as r where r.queue_id = q.queue_id)
        for no key update skip locked
    loop
        -- Look again after the lock, in a new statement: subscribe locks the row too. Publishers
        -- that knew a subscription have ended before it was removed.
        update pgq.queue as q
        set subscribed = false
        where q.queue_id = target.queue_id
            and not exists (select from pgq.subscription as s where s.queue_id = q.queue_id)
            and not exists (select from pgq.job_extent as r where r.queue_id = q.queue_id);
    end loop;
end
$$;

comment on function pgq._clean_subscriptions(int8multirange) is
'The part of cleanup that lets claims skip job extents in those of these queues that have no
subscriptions.';
