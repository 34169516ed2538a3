create type pgq.cleanup_action as (
    action text,
    target text,
    amount bigint
);

comment on type pgq.cleanup_action is 'One thing that cleanup did.';
comment on column pgq.cleanup_action.action is
'What: one of the actions that the comment of cleanup lists.';
comment on column pgq.cleanup_action.target is
'To what: a queue, a group as topic/group, a write_id, a segment; for busy and more, the part of the
work; for failed, the part and the SQLSTATE of its error.';
comment on column pgq.cleanup_action.amount is 'To how many.';
