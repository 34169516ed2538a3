-- Lease :batch jobs, finish them; all bodies are sent to the worker, as one value.
select
    array_agg(job_id) as ids,
    (array_agg(lease_token))[1] as token,
    string_agg(body, '') as bodies
from pgq.claim_job('bench', :batch::integer) \gset
select count(*) from pgq.ack_batch(:ids::bigint[], :token::uuid);
