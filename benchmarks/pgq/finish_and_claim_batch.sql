-- As finish_and_claim.sql, with :batch jobs in hand; all bodies are sent to the worker, as one value.
\if :in_hand
select
    array_agg(job_id) as ids,
    (array_agg(lease_token))[1] as token,
    string_agg(body, '') as bodies
from pgq.finish_and_claim(
    'bench', :ids::bigint[], :token::uuid, max_jobs => :batch::integer
) \gset
\else
select
    array_agg(job_id) as ids,
    (array_agg(lease_token))[1] as token,
    string_agg(body, '') as bodies
from pgq.finish_and_claim('bench', max_jobs => :batch::integer) \gset
\set in_hand 1
\endif
