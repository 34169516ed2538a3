create function pgq._describe_metrics()
returns table (place integer, name text, type text, help text)
language sql
immutable
parallel safe
as $$
select d.place, d.name, d.type, d.help
from (
    values
    (1, 'pgq_info', 'gauge', 'The version that is installed; always 1.'),
    (2, 'pgq_topic_published_total', 'counter', 'Messages published to the topic.'),
    (3, 'pgq_topic_messages', 'gauge', 'Messages of the topic that are kept.'),
    (
        4,
        'pgq_topic_last_published_timestamp_seconds',
        'gauge',
        'When the newest message was published, since 1970.'
    ),
    (
        5,
        'pgq_topic_staged_messages',
        'gauge',
        'Messages of a deferred topic that have no offset yet; 1000 at most are counted for each '
        'partition.'
    ),
    (
        6,
        'pgq_topic_staged_seconds',
        'gauge',
        'How long such a message has been waiting for its offset.'
    ),
    (7, 'pgq_group_lag_messages', 'gauge', 'Messages that the group has still to read.'),
    (
        8,
        'pgq_group_lag_seconds',
        'gauge',
        'Age of the next message that the group has to read; 0: it has caught up.'
    ),
    (
        9,
        'pgq_group_processed_messages',
        'gauge',
        'Offsets behind the position of the group, all partitions together; a seek moves it.'
    ),
    (
        10,
        'pgq_group_failing_partitions',
        'gauge',
        'Partitions whose next message has failed, in a group that counts attempts.'
    ),
    (11, 'pgq_queue_jobs', 'gauge', 'Unfinished jobs by state.'),
    (
        12,
        'pgq_queue_jobs_estimated',
        'gauge',
        '1: the queue is so long that its jobs were estimated from a sample.'
    ),
    (13, 'pgq_queue_retrying_jobs', 'gauge', 'Unfinished jobs of which an attempt has failed.'),
    (
        14,
        'pgq_queue_oldest_ready_seconds',
        'gauge',
        'How long the job that is due longest has been due; 0: none is.'
    ),
    (15, 'pgq_queue_dead_letters', 'gauge', 'Dead letters of the queue.'),
    (
        16,
        'pgq_queue_oldest_dead_letter_seconds',
        'gauge',
        'How long the oldest dead letter has been one; 0: there is none.'
    ),
    (
        17,
        'pgq_queue_finished_last_minute',
        'gauge',
        'Archived jobs that ended during the last minute; estimated when there are many.'
    ),
    (18, 'pgq_queue_paused', 'gauge', '1: claims get nothing until resume_queue.'),
    (
        19,
        'pgq_queue_floor_lag_seconds',
        'gauge',
        'How far behind the first job that is due, or the clock, claims begin to look.'
    ),
    (
        20,
        'pgq_jobs_created_total',
        'counter',
        'Ids that jobs have been given, in all queues; those that were rolled back too.'
    ),
    (
        21,
        'pgq_jobs_archived_total',
        'counter',
        'Finished jobs that were archived, in all queues, as the server counts; it begins again '
        'after a crash.'
    ),
    (
        22,
        'pgq_schedule_overdue_seconds',
        'gauge',
        'How long ago run_schedules should have written the next tick; 0: it is not due.'
    ),
    (23, 'pgq_schedule_failing', 'gauge', '1: the last try to write a tick failed.'),
    (24, 'pgq_worker_last_seen_seconds', 'gauge', 'Time since the last heartbeat of the worker.'),
    (25, 'pgq_worker_running', 'gauge', 'Jobs or messages that the worker has in hand.'),
    (26, 'pgq_segment_bytes', 'gauge', 'Size of a segment: its messages, finished jobs and keys.'),
    (27, 'pgq_table_bytes', 'gauge', 'Size of a table, with its indexes.'),
    (28, 'pgq_table_dead_rows', 'gauge', 'Dead rows of a table that vacuum has not removed.'),
    (
        29,
        'pgq_cleanup_overdue_seconds',
        'gauge',
        'How long ago a segment should have been sealed or emptied: cleanup does not run, or is '
        'held up.'
    ),
    (
        30,
        'pgq_held_seconds',
        'gauge',
        'How long the oldest transaction, or prepared transaction, has been open.'
    ),
    (
        31,
        'pgq_held_transactions',
        'gauge',
        'How many transactions ago it, or a replication slot, began to hold back the removal of '
        'dead rows.'
    ),
    (32, 'pgq_slot_retained_bytes', 'gauge', 'Write-ahead log that a replication slot keeps.'),
    (33, 'pgq_metrics_seconds', 'gauge', 'How long it took to gather these figures.')
) as d (place, name, type, help)
$$;

comment on function pgq._describe_metrics() is
'The metrics in their order: types and help texts.';
