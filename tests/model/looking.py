"""Looks at all that can be seen, and compares it with the model."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis.stateful import invariant, rule

from model.content import Content
from model.limits import held_by
from model.machine import Machine
from model.queues import Ended, Waiting
from model.schedules import SHOWN
from pgq import Client
from stored_state import wrong_state

__all__ = ["Looking"]


def check_same(found: set[Any], expected: set[Any]) -> None:
    assert found == expected, f"{found - expected} instead of {expected - found}"


class Looking(Machine):
    """What the views and the lists show."""

    @invariant()
    def lag_is_known(self) -> None:
        lag = self.run.clients[1].monitor.group_lag()
        for row in lag:
            if row.topic in self.broker.topics:
                self.broker.skipped(
                    row.topic, row.consumer_group, row.partition, row.committed_offset
                )
        expected = set()
        for name, topic in self.broker.topics.items():
            for group_name, group in topic.groups.items():
                for number, (position, log) in enumerate(
                    zip(group.positions, topic.logs, strict=True)
                ):
                    first = max(position.next_offset, log.first_offset)
                    oldest = log.times[first - 1] if first <= log.last_offset else None
                    until = position.leased_until
                    expected.add(
                        (
                            name,
                            group_name,
                            number,
                            position.next_offset - 1,
                            log.last_offset,
                            log.last_offset - position.next_offset + 1,
                            oldest,
                            until if until is not None and until > self.broker.now else None,
                            position.attempt,
                            position.last_error,
                        )
                    )
        assert {
            (
                row.topic,
                row.consumer_group,
                row.partition,
                row.committed_offset,
                row.last_offset,
                row.lag,
                row.oldest_published_at,
                row.leased_until,
                row.attempt,
                row.last_error,
            )
            for row in lag
        } == expected

    @invariant()
    def jobs_are_known(self) -> None:
        """Also what no view shows: their times and tokens, and what they will bring."""
        rows = self.run.connections[1].execute(
            "select q.queue, j.job_id, nullif(j.visible_at, 'infinity'), j.expires_at, j.attempt,"
            " j.lease_token, j.last_error, j.unique_key, j.max_attempts,"
            " case when q.ordered then j.ordered_key end, j.due_at,"
            " m.payload, m.body, m.key, m.headers"
            " from pgq.job as j inner join pgq.queue as q using (queue_id)"
            " left join pgq.message as m on m.segment = j.segment"
            " and m.partition_id = j.partition_id and m.log_offset = j.log_offset"
        )
        found = {(*row[:11], str(Content(*row[11:]))) for row in rows}
        expected = {
            (
                name,
                job.job_id,
                job.visible_at if job.due_at is None else None,
                job.expires_at,
                job.attempt,
                job.lease_token,
                job.last_error,
                job.unique_key,
                job.max_attempts,
                job.ordered_key,
                job.due_at,
                str(job.content),
            )
            for name, queue in self.broker.queues.items()
            for job in queue.jobs.values()
        }
        check_same(found, expected)

    @invariant()
    def keys_are_known(self) -> None:
        """Which job keeps others of its key out."""
        rows = self.run.connections[1].execute(
            "select q.queue, u.unique_key, u.job_id from pgq.unique_job as u"
            " inner join pgq.queue as q using (queue_id)"
        )
        assert set(rows) == {
            (name, key, job_id)
            for name, queue in self.broker.queues.items()
            for key, job_id in queue.key_holders().items()
        }

    @invariant()
    def order_is_known(self) -> None:
        """Which keys of ordered queues are taken; nothing is left to be looked for later."""
        rows = self.run.connections[1].execute(
            "select q.queue, k.ordered_key from pgq.ordered_key as k"
            " inner join pgq.queue as q using (queue_id)"
            " union all select 'noted', n.ordered_key from pgq.key_wakeup as n"
            " inner join pgq.queue as q using (queue_id) where q.ordered"
        )
        assert set(rows) == {
            (name, key) for name, queue in self.broker.queues.items() for key in queue.taken_keys()
        }

    @rule()
    def look(self) -> None:
        """Everything that can be seen is as the model has it."""
        self.look_at_topics(self.run.clients[0])
        self.look_at_queues(self.run.clients[1])
        self.look_at_schedules(self.run.clients[0])
        assert {s.subscription for s in self.run.clients[0].admin.list_subscriptions()} == set(
            self.broker.subscriptions
        )
        assert [*wrong_state(lambda query: self.run.connections[0].execute(query).fetchall())] == []

    def look_at_schedules(self, client: Client) -> None:
        assert [
            (s.schedule, *(getattr(s, name) for name in SHOWN))
            for s in client.schedules.list_schedules()
        ] == [(name, *s.shown()) for name, s in sorted(self.broker.schedules.items())]
        failed = {name for name, each in self.broker.schedules.items() if each.failed}
        assert {s.schedule for s in client.schedules.list_schedules() if s.last_error} == failed

    def look_at_topics(self, client: Client) -> None:
        assert [topic.topic for topic in client.admin.list_topics()] == sorted(self.broker.topics)
        assert [
            (g.topic, g.consumer_group, g.out_of_range, g.max_attempts, g.dead_letter_topic)
            for g in client.admin.list_groups()
        ] == [
            (
                topic,
                group,
                known.groups[group].out_of_range,
                known.groups[group].max_attempts,
                known.groups[group].dead_letter_topic,
            )
            for topic, known in sorted(self.broker.topics.items())
            for group in sorted(known.groups)
        ]
        minute_ago = self.broker.now - timedelta(minutes=1)
        expected = [
            (
                name,
                n,
                p.first_offset,
                p.last_offset,
                p.last_offset - p.first_offset + 1,
                p.last_offset + 1 - p.offset_at(minute_ago),
            )
            for name, topic in sorted(self.broker.topics.items())
            for n, p in enumerate(topic.logs)
        ]
        assert expected == sorted(
            (
                row.topic,
                row.partition,
                row.first_offset,
                row.last_offset,
                row.messages,
                row.published_last_minute,
            )
            for row in client.monitor.topic_stats()
        )
        for name, number, first, last, *_ in expected:
            self.step(0, "fetch_range", name, number, first, last)

    def look_at_queues(self, client: Client) -> None:
        now = self.broker.now
        for row in client.monitor.queue_stats():
            queue = self.broker.queues[row.queue]
            due = self.broker.due(queue)
            leased = [
                job for job in queue.jobs.values() if job.visible_at > now and job.lease_token
            ]
            expired = [job for job in queue.jobs.values() if job.is_over(now) and job not in leased]
            waiting = [
                job
                for job in queue.jobs.values()
                if job.due_at is not None and not job.is_over(now)
            ]
            assert row.waiting == len(waiting)
            rest = len(queue.jobs) - len(due) - len(leased) - len(expired) - len(waiting)
            runs = [job for made in queue.pending for job in made]
            over = [job for job in runs if job.is_over(now)]
            ready = [job for job in runs if job not in over and job.visible_at <= now]
            due += ready
            expired += over
            rest += len(runs) - len(over) - len(ready)
            assert (row.ready, row.leased, row.delayed, row.expired, row.dead) == (
                len(due),
                len(leased),
                rest,
                len(expired),
                len(queue.dead),
            )
            assert row.oldest_ready_at == min((job.visible_at for job in due), default=None)
            assert row.paused is queue.paused
            assert row.held_by == held_by(queue, now)
            most = queue.max_unfinished
            assert row.is_full is (most is not None and len(queue.jobs) >= most)
        assert {row.queue for row in client.monitor.queue_stats()} == set(self.broker.queues)
        self.look_at_single_jobs(client)

        found = {
            (
                d.queue,
                d.job_id,
                d.attempt,
                d.last_error,
                d.died_at,
                d.priority,
                d.label,
                d.stops_key,
                str(Content.of(d)),
            )
            for d in client.jobs.dead_letters()
        }
        expected = {
            (
                name,
                n,
                e.attempt,
                e.last_error,
                e.ended_at,
                e.job.priority,
                e.job.label,
                e.stops,
                str(e.job.content),
            )
            for name, queue in self.broker.queues.items()
            for n, e in queue.dead.items()
        }
        check_same(found, expected)
        found = {
            (
                a.queue,
                a.job_id,
                a.outcome,
                a.attempt,
                a.enqueued_at,
                a.ended_at,
                str(a.result),
                a.last_error,
                a.label,
                str(Content.of(a)),
            )
            for a in client.jobs.archived_jobs()
        }
        expected = {
            (
                name,
                n,
                e.outcome,
                e.attempt,
                e.job.enqueued_at,
                e.ended_at,
                str(e.result),
                e.last_error,
                e.job.label,
                str(e.job.content),
            )
            for name, queue in self.broker.queues.items()
            for n, e in queue.archived.items()
        }
        check_same(found, expected)

    def look_at_single_jobs(self, client: Client) -> None:
        """What get_job says of each job that is not finished, and of dead letters."""
        now = self.broker.now
        for name, queue in self.broker.queues.items():
            jobs: list[tuple[Waiting, Ended | None]]
            jobs = [(job, None) for job in queue.jobs.values()]
            jobs += [(letter.job, letter) for letter in queue.dead.values()]
            for job, letter in jobs:
                due = job.visible_at <= now
                later = "delayed" if job.due_at is None else "waiting"
                state = "expired" if job.is_over(now) else "ready" if due else later
                if job.lease_token is not None and not due:
                    state = "leased"
                if letter is not None:
                    state = "dead"
                found = client.get_job(job.job_id)
                assert found is not None
                assert (found.queue, found.state, found.label) == (name, state, job.label)
                assert (found.unique_key, found.enqueued_at) == (job.unique_key, job.enqueued_at)
                most = queue.max_attempts if job.max_attempts is None else job.max_attempts
                assert found.max_attempts == most
                assert Content.of(found) == job.content
                waits = state not in ("leased", "dead")
                assert found.due_at == ((job.due_at or job.visible_at) if waits else None)
                assert found.leased_until == (job.visible_at if state == "leased" else None)
                assert found.died_at == (letter.ended_at if letter is not None else None)
            for number in queue.archived:
                assert client.get_job(number) is None
