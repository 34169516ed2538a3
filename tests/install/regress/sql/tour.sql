-- A walk through topic, group and queue on an installed server: make install installcheck
create extension pgq;
select pgq.version() is not null as installed;
select topic, partitions from pgq.create_topic(topic => 'readings', partitions => 1);
select consumer_group from pgq.create_group(topic => 'readings', consumer_group => 'meters');
select log_offset, duplicate
from pgq.publish(topic => 'readings', payload => '{"celsius": 21.5}', key => 'a');
select first_offset, last_offset, duplicate
from pgq.publish_batch(topic => 'readings', payloads => array['1', '2', '3']::jsonb[]);
begin;
select log_offset, key, payload
from pgq.consume(topic => 'readings', consumer_group => 'meters', max_messages => 3);
rollback;
select log_offset, payload
from pgq.consume(topic => 'readings', consumer_group => 'meters', max_messages => 3);
select lag from pgq.group_lag where consumer_group = 'meters';
\set VERBOSITY sqlstate
select log_offset from pgq.publish(topic => 'nowhere', payload => '1');
\set VERBOSITY default
select queue, archive from pgq.create_queue(queue => 'work');
select job_id > 0 as enqueued, duplicate
from pgq.enqueue(queue => 'work', payload => '{"do": "this"}');
select attempt, payload, pgq.ack(job_id => job_id, lease_token => lease_token) as acked
from pgq.claim_job(queue => 'work');
select ready, leased, dead from pgq.queue_stats where queue = 'work';
drop extension pgq;
select count(*) from pg_namespace where nspname = 'pgq';
