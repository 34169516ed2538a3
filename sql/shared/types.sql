create type pgq.cleanup_report as (
    action text,
    target text,
    amount bigint
);

comment on type pgq.cleanup_report is 'One thing that cleanup did.';
comment on column pgq.cleanup_report.action is
'What: jobs expired, segment truncated, busy and so on.';
comment on column pgq.cleanup_report.target is 'To which queue, group or segment.';
comment on column pgq.cleanup_report.amount is 'To how many.';
