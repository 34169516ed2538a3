-- As consume.sql, without waiting for the flush of the position.
\set got 0
select c.log_offset as got, c.body
from
    set_config('synchronous_commit', 'off', true),
    lateral pgq.consume('bench', 'g' || :group::text, :batch::integer) as c \aset
\if :got = 0
\set group :group + 1
\endif
