create function pgq._create_leaf(leaf integer)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- ATTACH PARTITION does not block readers and writers of the parent; CREATE TABLE PARTITION OF
    -- would.
    execute format(
        'create table pgq.message_%1$s (like pgq.message, primary key (partition_id, log_offset))',
        leaf
    );
    execute format(
        'alter table pgq.message attach partition pgq.message_%1$s for values in (%1$s)',
        leaf
    );
    execute format('create table pgq.job_archive_%1$s (like pgq.job_archive)', leaf);
    -- No primary key: without a replica identity, deletes fail where all tables are published.
    execute format(
        'alter table pgq.job_archive_%1$s replica identity full', leaf
    );
    execute format(
        'alter table pgq.job_archive attach partition pgq.job_archive_%1$s for values in (%1$s)',
        leaf
    );
    execute format('create table pgq.job_event_%1$s (like pgq.job_event)', leaf);
    execute format('alter table pgq.job_event_%1$s replica identity full', leaf);
    execute format(
        'alter table pgq.job_event attach partition pgq.job_event_%1$s for values in (%1$s)',
        leaf
    );
    execute format(
        'create table pgq.idempotency_%1$s (
            like pgq.idempotency, primary key (scope_id, idempotency_key, segment)
        )',
        leaf
    );
    execute format(
        'alter table pgq.idempotency attach partition pgq.idempotency_%1$s for values in (%1$s)',
        leaf
    );
    execute format(
        'comment on table pgq.message_%1$s is ''Segment %1$s of the messages.''', leaf
    );
    execute format(
        'comment on table pgq.job_archive_%1$s is ''Segment %1$s of the finished jobs.''',
        leaf
    );
    execute format(
        'comment on table pgq.idempotency_%1$s is ''Segment %1$s of the idempotency keys.''',
        leaf
    );
    execute format(
        'comment on table pgq.job_event_%1$s is ''Segment %1$s of the attempts and results.''',
        leaf
    );
    perform pgq._revoke_others(
        array[
            format('message_%s', leaf),
            format('job_archive_%s', leaf),
            format('job_event_%s', leaf),
            format('idempotency_%s', leaf)
        ]
    );
end
$$;

comment on function pgq._create_leaf(integer) is
'Creates a leaf: a partition of message, job_archive, job_event and idempotency.';
