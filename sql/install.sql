-- The order in which the database is built; each line includes a file of this folder.
-- python/tools/build.py joins them into migrations/pgq--X.Y.Z.sql.

\ir shared/guard.sql
\ir shared/schema.sql
\ir shared/types.sql
\ir store/types.sql
\ir log/types.sql
\ir queue/types.sql
\ir bulk/types.sql
\ir subscription/types.sql
\ir schedule/types.sql
\ir access/types.sql
\ir metrics/types.sql
\ir store/tables.sql
\ir log/tables.sql
\ir queue/tables.sql
\ir queue/effect_tables.sql
\ir queue/limit_tables.sql
\ir bulk/tables.sql
\ir subscription/tables.sql
\ir schedule/tables.sql
\ir access/tables.sql
\ir metrics/tables.sql
\ir functions.sql
\ir shared/kept_grant.sql
\ir store/leaves.sql
\ir log/views.sql
\ir queue/views.sql
\ir bulk/views.sql
\ir shared/dump_configuration.sql
\ir shared/privileges.sql
