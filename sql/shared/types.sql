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

create type pgq._setting as (
    name text,
    kind text,
    standard text,
    may_lift boolean,
    least bigint,
    most bigint,
    words text array
);

comment on type pgq._setting is
'What is declared of a setting: interval (least 0: it may be 0), count, share, word, window or flag;
its default; whether no_limit may name it; and its bounds, or the words that it may be.';
