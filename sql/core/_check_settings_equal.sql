create function pgq._check_settings_equal(
    kind text, name text, given jsonb, no_limit text[], existing jsonb, declared pgq._setting[]
)
returns void
language plpgsql stable parallel safe
as $$
declare
    lacking text := case when kind in ('schedule', 'subscription') then 'none' else 'no limit' end;
    differences text;
begin
    -- Compare intervals as texts: 1 month and 30 days are different settings. But normalize hours:
    -- a client without hours above 23, like Python, writes 36 hours as 1 day 12 hours.
    select string_agg(
        format(
            '%s: given %s, has %s', s.name, coalesce(left(s.given, 100), lacking),
            coalesce(left(s.existing, 100), lacking)
        ),
        '; '
        order by s.name
    )
    into differences
    from (
        select g.key as name, g.value as given, existing ->> g.key as existing
        from jsonb_each_text(jsonb_strip_nulls(given)) as g
        union all
        select n.name, null as given, existing ->> n.name as existing
        from unnest(no_limit) as n (name)
    ) as s
    where
        case
            when s.name in (
                select d.name
                from unnest(declared) as d
                where d.kind in ('interval', 'window')
            )
                then
                    justify_hours(s.given::interval)::text
                    is distinct from justify_hours(s.existing::interval)::text
            else s.given is distinct from s.existing
        end;

    if differences is not null then
        raise exception '% "%" already exists with other settings',
            kind, name
            using errcode = 'MQ005',
                detail = format('%s.', differences),
                hint = case kind
                    when 'subscription'
                        then 'Leave a setting out to take it as it is, or unsubscribe first.'
                    else format(
                        'Leave a setting out to take it as it is, or change it with pgq.alter_%s.',
                        case kind when 'consumer group' then 'group' else kind end
                    )
                end;
    end if;
end
$$;

comment on function pgq._check_settings_equal(text, text, jsonb, text[], jsonb, pgq._setting[]) is
'Raises MQ005, naming the differences, for an object that exists with settings other than those
given. declared: which of these are intervals.';
