-- Stop before any change if the encoding of the database is SQL_ASCII, or if a schema pgq exists,
-- created by this package or by another.
do $guard$
begin
    -- SET LOCAL lasts until the transaction ends; inside DO it does not warn outside a transaction
    -- block.
    set local standard_conforming_strings = on;
    if getdatabaseencoding() = 'SQL_ASCII' then
        raise exception 'the database has the encoding SQL_ASCII, which cannot hold JSON escapes'
            using errcode = '0A000',
                detail = 'It stores what it is given, and programs get bytes instead of texts.',
                hint = 'create database NAME encoding ''UTF8'' template template0;';
    end if;
    if to_regnamespace('pgq') is null then
        return;
    end if;
    if to_regproc('pgq.version') is not null
        and to_regproc('pgq.claim_offsets') is not null
    then
        raise exception 'pgq % is already installed in this database', pgq.version()
            using errcode = '42P06',
                hint = 'The same version needs nothing; upgrades: migrations/pgq--OLD--NEW.sql.';
    end if;
    raise exception 'schema "pgq" exists and was not made by this package'
        using errcode = '42P06',
            detail = 'Skytools'' PgQ, among others, also installs a schema of this name.',
            hint = 'Nothing was changed. Use another database, or remove the other pgq first.';
end
$guard$;
