-- Each client has one job in hand: it finishes that and leases the next in one call. The first
-- call of a client has none to finish, and what it leases last stays with it.
\if :in_hand
select job_id, lease_token, body
from pgq.finish_and_claim('bench', array[:job_id::bigint], :lease_token::uuid) \gset
\else
select job_id, lease_token, body from pgq.finish_and_claim('bench') \gset
\set in_hand 1
\endif
