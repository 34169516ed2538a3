create function pgq._standard_settings(like_this anyelement, declared pgq._setting[])
returns anyelement
language plpgsql stable parallel safe
as $$
declare
    standard record;
begin
    execute (
        select
            format(
                'select (row(%s)::%s).*',
                string_agg(
                    format('%L::%s', d.standard, format_type(a.atttypid, a.atttypmod)),
                    ', '
                    order by a.attnum
                ),
                pg_typeof(like_this)
            )
        from pg_attribute as a
        inner join pg_type as t on t.typrelid = a.attrelid
        left join unnest(declared) as d on d.name = a.attname
        where t.oid = pg_typeof(like_this) and a.attnum > 0
    )
    into standard;
    return standard;
end
$$;

comment on function pgq._standard_settings(anyelement, pgq._setting[]) is
'A row of this type with the declared defaults of the settings; other columns are null.';
