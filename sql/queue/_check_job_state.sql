create function pgq._check_job_state(state text)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if state not in ('ready', 'leased', 'delayed', 'waiting', 'expired') then
        raise exception 'argument "state" must be ready, leased, delayed, waiting or expired'
            using errcode = '22023', hint = 'fetch_dead_letters returns dead letters.';
    end if;
end
$$;

comment on function pgq._check_job_state(text) is
'Raises 22023 for a word that is no state of an unfinished job.';
