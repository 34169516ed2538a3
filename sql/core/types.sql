create type pgq.cleanup_action as (
    action text,
    target text,
    amount bigint
);

comment on type pgq.cleanup_action is 'An action of cleanup.';
comment on column pgq.cleanup_action.action is
'The name of the action: one of those in the comment of cleanup.';
comment on column pgq.cleanup_action.target is
'The target: a queue, a group as topic/group, a write_id, a segment; for busy and more, the part of
the work; for failed, the part, the object and the SQLSTATE of its error.';
comment on column pgq.cleanup_action.amount is 'How many items the action concerned.';

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
'The declaration of a setting. kind: interval (least 0: it may be 0), count, share, word, window or
flag; standard: its default; may_lift: whether no_limit may name it; least and most: its bounds;
words: the allowed words.';
