-- Lease one job.
select job_id, lease_token, body from pgq.claim_job('bench');
