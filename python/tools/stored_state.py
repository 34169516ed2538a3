"""What must not be in the tables of pgq, whatever has happened before.

The model, the explorer, the fuzzer, the fault runs and the run of months read the final state by
these queries, besides what each of them holds against its own record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["NEVER", "wrong_state"]

NEVER = {
    "a job without its message": (
        "select j.job_id from pgq.job as j left join pgq.message as m"
        " on (m.segment, m.partition_id, m.log_offset) = (j.segment, j.partition_id, j.log_offset)"
        " where m.partition_id is null"
    ),
    "a dead letter without its message": (
        "select j.job_id from pgq.dead_job as j left join pgq.message as m"
        " on (m.segment, m.partition_id, m.log_offset) = (j.segment, j.partition_id, j.log_offset)"
        " where m.partition_id is null"
    ),
    "a job in more than one state": (
        "select job_id from (select job_id from pgq.job union all select job_id from pgq.dead_job"
        " union all select job_id from pgq.archived_jobs) as states"
        " group by job_id having count(*) > 1"
    ),
    "a unique key without its job": (
        "select u.unique_key from pgq.unique_job as u"
        " where not exists (select from pgq.job as j"
        " where (j.queue_id, j.unique_key, j.job_id) = (u.queue_id, u.unique_key, u.job_id))"
        " and not exists (select from pgq.dead_job as d"
        " where (d.queue_id, d.unique_key, d.job_id) = (u.queue_id, u.unique_key, u.job_id))"
    ),
    "a leased job that keeps out those that would replace it": (
        "select u.unique_key from pgq.unique_job as u"
        " inner join pgq.queue as q on q.queue_id = u.queue_id and q.on_duplicate <> 'keep'"
        " inner join pgq.job as j on j.job_id = u.job_id and j.lease_token is not null"
    ),
    "two open segments of a class": (
        "select storage_class_id from pgq.segment where state = 'open'"
        " group by storage_class_id having count(*) > 1"
    ),
    "a queue whose segment is not open": (
        "select q.queue, q.segment from pgq.queue as q"
        " left join pgq.segment as s on s.segment = q.segment"
        " where s.state is distinct from 'open' or s.storage_class_id <> q.storage_class_id"
    ),
    "a job that get_job does not know": (
        "select j.job_id from pgq.job as j inner join pgq.queue as q on q.queue_id = j.queue_id"
        " where not exists (select from pgq.get_job(j.job_id))"
    ),
    "an event in a segment that nobody uses": (
        "select e.job_id, e.segment from pgq.job_event as e"
        " where not exists (select from pgq.segment as s where s.segment = e.segment)"
    ),
    "40 attempts of a job in a segment, or more": (
        "select job_id, segment, count(*) from pgq.job_event"
        " where event in ('failed', 'lost', 'rejected')"
        " group by job_id, segment having count(*) > 39"
    ),
    "the end of a job that has not ended, or two": (
        "select e.job_id from pgq.job_event as e"
        " where e.event in ('finished', 'cancelled', 'expired')"
        " and (exists (select from pgq.job as j where j.job_id = e.job_id)"
        " or exists (select from pgq.dead_job as d where d.job_id = e.job_id))"
        " union all"
        " select job_id from pgq.job_event where event in ('finished', 'cancelled', 'expired')"
        " group by job_id having count(*) > 1"
    ),
    # After one that is in the open segment: retention has not removed it, nor has the trimming.
    "an attempt that nobody has noted": (
        "select j.job_id, e.attempt + 1 from ("
        " select job_id, queue_id, attempt"
        " - (lease_token is not null and last_attempt is not null)::integer as ended from pgq.job"
        " union all select job_id, queue_id, attempt from pgq.dead_job) as j"
        " inner join pgq.queue as q on q.queue_id = j.queue_id"
        " inner join pgq.job_event as e on e.job_id = j.job_id and e.segment = q.segment"
        " where e.event in ('failed', 'lost', 'rejected')"
        " and e.attempt < j.ended and j.ended < 20"
        " and not exists (select from pgq.job_event as o"
        " where o.job_id = j.job_id and o.attempt = e.attempt + 1)"
    ),
    "fewer than no attempts": (
        "select job_id, attempt from pgq.job where attempt < 0"
        " union all select job_id, attempt from pgq.dead_job where attempt < 0"
    ),
    "another number of partitions than the topic's": (
        "select t.topic, t.partitions, count(p.partition) from pgq.topic as t"
        " left join pgq.partition as p on p.topic_id = t.topic_id"
        " group by t.topic_id having count(p.partition) <> t.partitions"
    ),
    "a group ahead of its topic": "select * from pgq.group_lag where lag < 0",
    "fewer than no jobs": (
        "select * from pgq.queue_stats"
        " where least(ready, leased, delayed, expired, dead, waiting) < 0"
    ),
    "a role that a call has left behind": "select * from pgq.acting",
}
"""What is wrong, by a query for it, as rows that must not be."""


def wrong_state(ask: Callable[[str], Sequence[Any]]) -> Iterator[str]:
    """Say what is wrong in a database, which ``ask`` gives the rows of a query from."""
    for what, query in NEVER.items():
        found = ask(query)
        if found:
            yield f"{what}: {len(found)}, such as {found[:5]}"
