create function pgq._check_rate_limit(settings pgq.queue_info)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_rate_limit.settings.rate_limit is null
        and (
            _check_rate_limit.settings.rate_interval is not null
            or _check_rate_limit.settings.rate_burst is not null
        )
    then
        raise exception 'argument "%" must come with "rate_limit"',
            case
                when _check_rate_limit.settings.rate_interval is not null then 'rate_interval'
                else 'rate_burst'
            end
            using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_rate_limit(pgq.queue_info) is
'Refuses what says more about a rate_limit where there is none (22023).';
