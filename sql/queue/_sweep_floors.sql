create function pgq._sweep_floors()
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target record;
begin
    for target in
        -- The queues share the number of labels that one call looks at.
        select q.queue_id, q.queue, 1 + 1000 / count(*) over () as labels
        from pgq.queue as q
        where exists (select from pgq.job as j where j.queue_id = q.queue_id)
            or exists (select from pgq.job_run as r where r.queue_id = q.queue_id)
            or exists (
                select
                from pgq.queue_floor as f
                where f.queue_id = q.queue_id
                    and f.label > ''
            )
    loop
        continue when not pgq._lock_floor(target.queue_id);

        -- Workers may not be able to raise the floor themselves. The clock is read behind the lock:
        -- no claim that begins later is here first.
        perform pgq._raise_floor(target.queue_id, pgq._clock());

        if pgq._lower_floor(target.queue_id) then
            return next row('floor lowered', target.queue, 1)::pgq.cleanup_action;
        end if;

        -- Behind the others, without which those of labels do not count.
        perform pgq._sweep_labels(target.queue_id, target.labels, pgq._clock());
    end loop;
end
$$;

comment on function pgq._sweep_floors() is
'The part of cleanup that raises the floors of queues, and lowers those above a job that no claim
would find.';
