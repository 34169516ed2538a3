create type pgq._judged_jobs as (
    chosen pgq._chosen_jobs,
    blocked bigint array,
    blocked_keys text array,
    changes pgq.limited_key array
);

comment on type pgq._judged_jobs is
'The jobs that a claim has chosen so far, those that it has met and blocks, with their keys, and the
new rows of these keys.';
