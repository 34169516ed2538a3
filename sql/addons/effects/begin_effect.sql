create function pgq.begin_effect(
    job_id bigint,
    lease_token uuid,
    effect text,
    at_least_once boolean default null
)
returns setof pgq.effect_state
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
    held pgq.job;
    known pgq.effect;
    outcome text := 'begun';
begin
    perform pgq._check_lease(job_id, lease_token);
    perform pgq._check_effect(effect collate "C");

    -- Lock the job: it cannot be claimed or ended before this transaction ends.
    held := pgq._lock_leased(job_id, lease_token);
    if held.job_id is null or held.visible_at <= pgq._clock() then
        raise exception 'job % is not leased to this worker any more', job_id
            using errcode = 'MQ006',
                detail = case
                    when held.job_id is null then 'It was given to another worker, or has ended.'
                    else format('The lease ended at %s.', held.visible_at)
                end,
                hint = 'Nothing was begun. Leave the job, and claim the next one.';
    end if;

    loop
        insert into pgq.effect as e (job_id, effect, lease_token, attempt, begun_at)
        values (job_id, effect, lease_token, held.attempt, pgq._clock())
        on conflict do nothing
        returning e.*
        into known;
        exit when found;

        select e.*
        into known
        from pgq.effect as e
        where e.job_id = begin_effect.job_id and e.effect = begin_effect.effect collate "C"
        for update;
        -- Else delete_effect has deleted it in between.
        continue when not found;

        if known.finished_at is not null then
            outcome := 'finished';
        elsif coalesce(at_least_once, false) then
            update pgq.effect as e
            set
                lease_token = begin_effect.lease_token, attempt = held.attempt,
                begun_at = pgq._clock()
            where e.job_id = begin_effect.job_id and e.effect = begin_effect.effect collate "C"
            returning e.*
            into known;
        else
            outcome := 'interrupted';
        end if;
        exit;
    end loop;

    if outcome = 'begun' then
        perform pgq._flush_commit();
    end if;

    return query select outcome, known.result, known.attempt, known.begun_at;
end
$$;

comment on function pgq.begin_effect(bigint, uuid, text, boolean) is
'Records that an effect is about to run, and returns its state; MQ006 when the lease is lost.
An effect is an action of a job outside of this database: a mail, a payment. effect: its name, of 1
to 255 characters, one for each effect of a job. Call this function, commit, run the effect only if
the state is begun, and call finish_effect. Later attempts of the job then get the state finished,
and the result. If the attempt that began the effect ended before finish_effect, or is still running
it, later attempts get interrupted: the effect may have happened or not. When you know, record it
with finish_effect or delete_effect. So the effect happens at most once. at_least_once => true: an
interrupted effect is begun again, so it happens at least once, and more than once only after such
an interruption or a lost lease. The commit is flushed to disk, even if the session turned
synchronous_commit off. The record is kept as long as the job, including its time as a dead letter.
Errors: MQ006 the lease has run out or was never the caller''s, or the job is finished (nothing was
begun; do not run the effect), 22004 a required argument is null, 22023 bad effect, 40001 above READ
COMMITTED when another transaction was first (try again).';
