create function pgq._leave_segment(segment integer)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
begin
    for target in
        select p.partition_id, p.topic, pgq._state_of(p) as state
        from pgq.partition as p
        where _leave_segment.segment = any(p.left_segments)
        order by p.partition_id
        for no key update of p skip locked
    loop
        perform pgq._assign(target.topic, target.state, null);

        update pgq.partition as p
        set left_segments = array_remove(p.left_segments, _leave_segment.segment)
        where p.partition_id = target.partition_id;
    end loop;

    return not exists (
        select
        from pgq.partition as p
        where _leave_segment.segment = any(p.left_segments)
    );
end
$$;

comment on function pgq._leave_segment(integer) is
'Assigns offsets to the messages that are still staged in a segment that no transaction can write to
any more, which moves them to the current segment of their partition; false if a partition was
locked.';
