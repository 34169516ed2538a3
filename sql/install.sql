-- The order in which the database is built; each line includes a file of this folder.
-- python/tools/build.py joins them into migrations/pgq--X.Y.Z.sql.

\ir core/guard.sql
\ir core/schema.sql

\ir core/types.sql
\ir store/types.sql
\ir log/types.sql
\ir queue/types.sql
\ir addons/subscription/types.sql
\ir addons/deferred/types.sql
\ir addons/effects/types.sql
\ir addons/history/types.sql
\ir addons/filters/types.sql
\ir addons/bulk/types.sql
\ir addons/schedule/types.sql
\ir addons/access/types.sql
\ir addons/metrics/types.sql

\ir core/tables.sql
\ir store/tables.sql
\ir log/tables.sql
\ir queue/tables.sql
\ir retention/tables.sql
\ir addons/subscription/tables.sql
\ir addons/deferred/tables.sql
\ir addons/ordered/tables.sql
\ir addons/limits/tables.sql
\ir addons/limits/types.sql
\ir addons/effects/tables.sql
\ir addons/history/tables.sql
\ir addons/bulk/tables.sql
\ir addons/schedule/tables.sql
\ir addons/access/tables.sql
\ir addons/metrics/tables.sql

\ir functions.sql

\ir core/kept_grant.sql
\ir store/leaves.sql
\ir log/views.sql
\ir queue/views.sql
\ir addons/effects/views.sql
\ir addons/bulk/views.sql
\ir core/dump_configuration.sql
\ir core/privileges.sql
