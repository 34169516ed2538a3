-- pg_dump omits the rows of tables that belong to an extension; this makes it include them.
do $dump_configuration$
declare
    relation regclass;
begin
    if not exists (select from pg_extension where extname = 'pgq') then
        return;
    end if;
    for relation in
        select c.oid
        from pg_class as c
        where c.relnamespace = 'pgq'::regnamespace
            and c.relkind in ('r', 'S')
            -- Each installation creates its own rows.
            and c.relname not in ('leaf', 'view_key', 'access_change')
            -- Leaves that were created later do not belong to the extension; pg_dump includes them
            -- anyway.
            and exists (
                select
                from pg_depend as d
                inner join pg_extension as e on e.oid = d.refobjid
                where d.classid = 'pg_class'::regclass
                    and d.objid = c.oid
                    and d.deptype = 'e'
                    and e.extname = 'pgq'
            )
        order by c.oid
    loop
        perform pg_extension_config_dump(relation, '');
    end loop;
end
$dump_configuration$;
