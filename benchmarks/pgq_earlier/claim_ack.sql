-- Lease one job, finish it: two calls, two transactions, as a worker makes them.
select job_id, lease_token, body from pgq.claim_job('bench') \gset
select pgq.ack(:job_id, :lease_token::uuid);
