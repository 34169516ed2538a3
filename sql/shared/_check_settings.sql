create function pgq._check_settings(settings anyelement, declared pgq._setting[])
returns void
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
begin
    execute (
        select
            format(
                'select %s from (select ($1).*) as s',
                string_agg(
                    format(
                        case d.kind
                            when 'interval'
                                then 'case when s.%1$I is not null
                                    then pgq._check_interval(%1$L, s.%1$I, %2$L) end'
                            when 'count'
                                then 'case when s.%1$I is not null
                                    then pgq._check_count(%1$L, s.%1$I, %2$s, %3$s) end'
                            when 'share' then 'pgq._check_share(%1$L, s.%1$I)'
                            when 'word' then 'pgq._check_word(%1$L, s.%1$I, %4$L)'
                            when 'window' then 'pgq._check_idempotency_window(s.%1$I)'
                        end,
                        d.name,
                        case when d.kind = 'interval' then (d.least = 0)::text else d.least::text end,
                        d.most,
                        d.words
                    ),
                    ', '
                    order by d.place
                )
            )
        from unnest(_check_settings.declared) with ordinality
            as d (name, kind, standard, may_lift, least, most, words, place)
        where d.kind <> 'flag'
    )
    using settings;
end
$$;

comment on function pgq._check_settings(anyelement, pgq._setting[]) is
'Refuses settings that are outside what is declared of them, each looked at by itself (22023).';
