create table pgq.cleanup_failure (
    cleanup_failure_id bigint generated always as identity primary key,
    part text collate "C" not null,
    object bigint,
    failed_since timestamptz not null,
    tried_at timestamptz not null,
    error_code text collate "C" not null,
    error text not null
);

comment on table pgq.cleanup_failure is
'What cleanup could not do at its last try. Each failed try writes a new row, so the lowest id was
tried longest ago. Two concurrent calls of cleanup may write a row each for one object.';
comment on column pgq.cleanup_failure.part is 'The part of cleanup.';
comment on column pgq.cleanup_failure.object is
'The id of the object that it failed for, see _objects_of; null: the part fails as a whole.';
comment on column pgq.cleanup_failure.failed_since is
'When it failed for the first time; it has not worked since then.';
comment on column pgq.cleanup_failure.tried_at is 'When it was tried last.';
comment on column pgq.cleanup_failure.error_code is 'The SQLSTATE of the last error.';
comment on column pgq.cleanup_failure.error is
'The message of the last error and where it was raised; it may have names that are hidden from most
roles.';
