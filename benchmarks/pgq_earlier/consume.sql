-- Claim and fetch :batch messages in one call. A group that has come to the end is left for the
-- next one, so that a short table feeds a long run.
\set got 0
select log_offset as got, body
from pgq.consume('bench', 'g' || :group::text, :batch::integer) \aset
\if :got = 0
\set group :group + 1
\endif
