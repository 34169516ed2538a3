create type pgq.effect_state as (
    state text,
    result jsonb,
    attempt integer,
    begun_at timestamptz
);

comment on type pgq.effect_state is 'The state of an effect of a job.';
comment on column pgq.effect_state.state is
'begun: run it now; finished: it has happened; interrupted: it was begun before, and may have
happened or not.';
comment on column pgq.effect_state.result is 'The result given to finish_effect; null: none.';
comment on column pgq.effect_state.attempt is 'The attempt of the job that began it.';
comment on column pgq.effect_state.begun_at is 'When it was begun.';
