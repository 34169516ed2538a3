create function pgq._write_queue(
    settings pgq.queue_info, class pgq.storage_class, queue_id bigint default null
)
returns bigint
language plpgsql volatile parallel unsafe
as $$
declare
    names text;
    fields text;
    written bigint;
begin
    select string_agg(d.name, ', '), string_agg('($1).' || d.name, ', ')
    into names, fields
    from unnest(pgq._queue_settings()) as d;

    if queue_id is not null then
        execute format(
            'update pgq.queue as q
            set (%s, storage_class_id, segment, updated_at)
                = row(%s, ($2).storage_class_id, ($2).segment, pgq._clock())
            where q.queue_id = $3
            returning q.queue_id',
            names, fields
        )
        into written
        using settings, class, queue_id;
        return written;
    end if;

    execute format(
        'insert into pgq.queue (
            queue, partition_id, storage_class_id, segment, created_at, updated_at, made_by, %s
        )
        select
            ($1).queue,
            nextval(''pgq.partition_id''),
            ($2).storage_class_id,
            ($2).segment,
            pgq._clock(),
            pgq._clock(),
            pgq._maker(),
            %s
        on conflict (queue) do nothing
        returning queue_id',
        names, fields
    )
    into written
    using settings, class;
    return written;
end
$$;

comment on function pgq._write_queue(pgq.queue_info, pgq.storage_class, bigint) is
'Inserts a queue with these settings, or updates the queue with this id; returns the id, or null if
another transaction has inserted a queue of this name.';
