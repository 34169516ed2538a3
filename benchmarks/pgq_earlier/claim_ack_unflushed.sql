-- As claim_ack.sql, and neither call waits for its flush.
select c.job_id, c.lease_token, c.body
from
    set_config('synchronous_commit', 'off', true),
    lateral pgq.claim_job('bench') as c \gset
select a.*
from
    set_config('synchronous_commit', 'off', true),
    lateral pgq.ack(:job_id, :lease_token::uuid) as a;
