create type pgq._staged_since as (
    seq bigint,
    lowest bigint,
    late_xids xid8 array,
    next_xid xid8,
    open_xids xid8 array,
    system_identifier bigint
);

comment on type pgq._staged_since is
'Where to look for messages of a partition that were staged since the last assignment: in rows with
a partition_id from lowest on, or with that of one of late_xids, the transactions open at that time;
the other fields go to the journal (assignment) once the messages have offsets.';
