create function pgq._segment_due(storage_class_id bigint, now_at timestamptz)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    class pgq.storage_class;
    opened_at timestamptz;
begin
    select c.*
    into class
    from pgq.storage_class as c
    where c.storage_class_id = _segment_due.storage_class_id;

    select s.opened_at into opened_at from pgq.segment as s where s.segment = class.segment;

    if opened_at > now_at then
        -- The clock was ahead when it was opened.
        update pgq.segment as s set opened_at = now_at where s.segment = class.segment;
        opened_at := now_at;
    end if;

    if (opened_at + class.retention / 3 <= now_at) is true
        or (
            pg_table_size(to_regclass('pgq.message_' || class.segment)) > class.max_bytes / 3
        ) is true
    then
        return true;
    end if;

    -- A class out of use is due at once.
    return not pgq._class_in_use(class.storage_class_id);
end
$$;

comment on function pgq._segment_due(bigint, timestamptz) is
'Whether a storage class has to move to another segment, or can be deleted: its open segment is old
or large enough, or the class is out of use.';
