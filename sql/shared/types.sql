create type pgq.cleanup_action as (
    action text,
    target text,
    amount bigint
);

comment on type pgq.cleanup_action is 'One thing that cleanup did.';
comment on column pgq.cleanup_action.action is
'What: jobs expired, segment truncated, busy and so on.';
comment on column pgq.cleanup_action.target is 'To which queue, group or segment.';
comment on column pgq.cleanup_action.amount is 'To how many.';
