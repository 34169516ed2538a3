create function pgq._sweep_floors(moment timestamptz)
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target record;
begin
    for target in
        select q.queue_id, q.queue
        from pgq.queue as q
        where exists (select from pgq.job as j where j.queue_id = q.queue_id)
    loop
        -- Workers may not be able to raise the floor themselves.
        perform pgq._raise_floor(target.queue_id, _sweep_floors.moment);
        perform pgq._sweep_labels(target.queue_id, _sweep_floors.moment);

        perform
        from pgq.queue_floor_lock as l
        where l.queue_id = target.queue_id
        for no key update skip locked;

        if found and pgq._lower_floor(target.queue_id) then
            return next row('floor lowered', target.queue, 1)::pgq.cleanup_report;
        end if;
    end loop;
end
$$;

comment on function pgq._sweep_floors(timestamptz) is
'The part of cleanup that raises the floors of queues, and lowers those above a job that no claim
would find.';
