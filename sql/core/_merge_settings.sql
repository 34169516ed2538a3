create function pgq._merge_settings(given anyelement, before anyelement, no_limit text[])
returns anyelement
language plpgsql stable parallel safe
as $$
declare
    merged record;
begin
    -- Typed columns, not texts: a conversion would depend on settings of the session.
    execute (
        select
            format(
                'select (row(%s)::%s).*',
                string_agg(
                    case
                        when a.attname = any(no_limit collate "C") then 'null'
                        else format('coalesce(($1).%1$I, ($2).%1$I)', a.attname)
                    end,
                    ', '
                    order by a.attnum
                ),
                pg_typeof(given)
            )
        from pg_attribute as a
        inner join pg_type as t on t.typrelid = a.attrelid
        where t.oid = pg_typeof(given) and a.attnum > 0
    )
    into merged
    using given, before;
    return merged;
end
$$;

comment on function pgq._merge_settings(anyelement, anyelement, text[]) is
'The given settings, with those from before where they are null; null where no_limit names one.';
