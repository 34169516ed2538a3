create function pgq._check_settings_equal(
    kind text,
    name text,
    given jsonb,
    no_limit text[],
    existing jsonb
)
returns void
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    differences text;
begin
    -- As texts, as which JSON writes them: a month and 30 days are two settings. But a client may
    -- know no hour above 23, as Python does, so a day and 12 hours are the same as 36 hours.
    select string_agg(
        format('%s: given %s, has %s', s.name, s.given, s.existing), '; '
        order by s.name
    )
    into differences
    from (
        select
            g.key as name,
            g.value as given,
            coalesce(_check_settings_equal.existing ->> g.key, 'no limit') as existing
        from jsonb_each_text(jsonb_strip_nulls(_check_settings_equal.given)) as g
        union all
        select
            n.name,
            'no limit' as given,
            coalesce(_check_settings_equal.existing ->> n.name, 'no limit') as existing
        from unnest(_check_settings_equal.no_limit) as n (name)
    ) as s
    where
        case
            when
                s.name in ('backoff', 'backoff_max', 'delay', 'job_ttl', 'lease', 'retention')
                and 'no limit' not in (s.given, s.existing)
                then
                    justify_hours(s.given::interval)::text
                    <> justify_hours(s.existing::interval)::text
            else s.given <> s.existing
        end;

    if differences is not null then
        raise exception '% "%" already exists with other settings',
            _check_settings_equal.kind, _check_settings_equal.name
            using errcode = 'MQ005',
                detail = format('%s.', differences),
                hint = format(
                    'Leave a setting out to take it as it is, or change it with pgq.alter_%s.',
                    case _check_settings_equal.kind
                        when 'consumer group' then 'group'
                        else _check_settings_equal.kind
                    end
                );
    end if;
end
$$;

comment on function pgq._check_settings_equal(text, text, jsonb, text[], jsonb) is
'Refuses to create what exists with other settings than those given (MQ005), and names them.';
