create function pgq._describe_metrics()
returns table (name text, type text, help text)
language sql immutable parallel safe
as $$
select d.name, case when right(d.name, 6) = '_total' then 'counter' else 'gauge' end, d.help
from (
    values
    ('pgq_info', 'The version that is installed; always 1.'),
    ('pgq_topic_published_total', 'Messages published to the topic.'),
    ('pgq_topic_messages', 'Messages of the topic that are kept.'),
    (
        'pgq_topic_staged_messages',
        'Messages of a deferred topic that have no offset yet; 1000 at most are counted for each '
        'partition.'
    ),
    ('pgq_topic_staged_seconds', 'How long such a message has been waiting for its offset.'),
    ('pgq_group_lag_messages', 'Messages that the group has still to read.'),
    (
        'pgq_group_lag_seconds',
        'Age of the next message that the group has to read; 0: it has caught up.'
    ),
    (
        'pgq_group_processed_messages',
        'Offsets behind the position of the group, all partitions together; a seek moves it.'
    ),
    (
        'pgq_group_failing_partitions',
        'Partitions whose next message has failed, in a group that counts attempts.'
    ),
    ('pgq_queue_jobs', 'Unfinished jobs by state.'),
    (
        'pgq_queue_jobs_estimated',
        '1: the queue is so long that its jobs were estimated from a sample.'
    ),
    ('pgq_queue_retrying_jobs', 'Unfinished jobs of which an attempt has failed.'),
    (
        'pgq_queue_oldest_ready_seconds',
        'How long the job that is due longest has been due; 0: none is.'
    ),
    ('pgq_queue_dead_letters', 'Dead letters of the queue.'),
    (
        'pgq_queue_oldest_dead_letter_seconds',
        'How long the oldest dead letter has been one; 0: there is none.'
    ),
    (
        'pgq_queue_finished_last_minute',
        'Archived jobs that ended during the last minute; estimated when there are many.'
    ),
    ('pgq_queue_paused', '1: claims get nothing until resume_queue.'),
    (
        'pgq_queue_floor_lag_seconds',
        'How far behind the first job that is due, or the clock, claims begin to look.'
    ),
    (
        'pgq_jobs_created_total',
        'Ids that jobs have been given, in all queues; those that were rolled back too.'
    ),
    (
        'pgq_jobs_archived_total',
        'Finished jobs that were archived, in all queues, as the server counts; it begins again '
        'after a crash.'
    ),
    (
        'pgq_schedule_overdue_seconds',
        'How long ago run_schedules should have written the next tick; 0: it is not due.'
    ),
    ('pgq_schedule_failing', '1: the last try to write a tick failed.'),
    ('pgq_worker_last_seen_seconds', 'Time since the last heartbeat of the worker.'),
    ('pgq_worker_running', 'Jobs or messages that the worker has in hand.'),
    ('pgq_workers', 'Workers of the role that have sent a heartbeat within a minute, and others.'),
    (
        'pgq_workers_omitted',
        'Workers of the role without figures of their own: only the 100 that were seen last have '
        'them.'
    ),
    ('pgq_segment_bytes', 'Size of a segment: its messages, finished jobs and keys.'),
    ('pgq_table_bytes', 'Size of a table, with its indexes.'),
    ('pgq_table_dead_rows', 'Dead rows of a table that vacuum has not removed.'),
    (
        'pgq_cleanup_overdue_seconds',
        'How long ago a segment should have been sealed or emptied: cleanup does not run, or is '
        'held up.'
    ),
    (
        'pgq_cleanup_failures',
        'Objects for which a part of cleanup fails, which list_cleanup_failures names; no sample: '
        'none.'
    ),
    (
        'pgq_held_seconds',
        'How long the oldest transaction, or prepared transaction, has been open.'
    ),
    (
        'pgq_held_transactions',
        'How many transactions ago it, or a replication slot, began to hold back the removal of '
        'dead rows.'
    ),
    ('pgq_slot_retained_bytes', 'Write-ahead log that a replication slot keeps.'),
    ('pgq_metrics_seconds', 'How long it took to gather these figures.')
) as d (name, help)
$$;

comment on function pgq._describe_metrics() is
'The metrics: their names, types and help texts.';
