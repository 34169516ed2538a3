create function pgq._seal_segment(storage_class_id bigint, now_at timestamptz, wait boolean)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    class pgq.storage_class;
    leaf integer;
    used boolean;
    filled boolean;
begin
    -- Check before locking: transactions that enter the segment lock this row, and would wait.
    if not pgq._segment_due(storage_class_id, now_at) then
        return null;
    end if;

    -- Lock queues before the class, in the order of alter_queue: the reverse could deadlock.
    if wait then
        perform
        from pgq.queue as q
        where q.storage_class_id = _seal_segment.storage_class_id
        order by q.queue_id
        for no key update;
    else
        -- NOWAIT: leave a locked queue to the next cleanup.
        perform
        from pgq.queue as q
        where q.storage_class_id = _seal_segment.storage_class_id
        for no key update nowait;
    end if;

    select c.*
    into class
    from pgq.storage_class as c
    where c.storage_class_id = _seal_segment.storage_class_id
    for update skip locked;

    if class.storage_class_id is null
        or not pgq._segment_due(storage_class_id, now_at)
    then
        return null;
    end if;

    used := pgq._class_in_use(class.storage_class_id);

    if class.segment is null then
        -- The class is out of use: delete it once it has no segments.
        if not used
            and not exists (
                select from pgq.segment as s
                where s.storage_class_id = class.storage_class_id
            )
        then
            delete from pgq.storage_class as c
            where c.storage_class_id = class.storage_class_id;
        end if;
        return null;
    end if;

    execute format(
        'select exists (select from pgq.message_%1$s as m where m.partition_id <> 0)
            or exists (select from pgq.job_archive_%1$s)
            or exists (select from pgq.job_event_%1$s)
            or exists (select from pgq.idempotency_%1$s)',
        class.segment
    )
    into filled;
    if used and not filled then
        -- An empty segment does not age.
        update pgq.segment as s
        set opened_at = now_at
        where s.segment = class.segment;
        return null;
    end if;

    leaf := class.segment;
    update pgq.segment as s
    set
        state = 'sealed',
        sealed_at = now_at,
        sealed_xid = pg_current_xact_id()
    where s.segment = leaf;

    if used then
        if not class.for_keys and pgq._has_keys(leaf) then
            update pgq.storage_class as c
            set for_keys = true
            where c.storage_class_id = class.storage_class_id;
        end if;
        class.segment := pgq._open_segment(class.storage_class_id);
    else
        update pgq.storage_class as c
        set segment = null
        where c.storage_class_id = class.storage_class_id;
    end if;

    perform pgq._settle_queues(class.storage_class_id, class.segment);

    return leaf;
end
$$;

comment on function pgq._seal_segment(bigint, timestamptz, boolean) is
'Moves a storage class to a new segment when its open one is old or large enough, and returns the
number of the sealed one; deletes a class that is out of use.';
