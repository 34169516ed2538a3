"""Steps with queues, producers and workers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.broker import Broker
from model.drawn import (
    MODES,
    choices,
    dead_ends,
    delays,
    labels,
    leases,
    limited,
    limits,
    lives,
    members,
    once,
    priorities,
    queues,
    seconds,
    seldom,
    sizes,
    turns,
    uniques,
)
from model.limits import is_limited
from model.machine import Machine

__all__ = ["QueueSteps"]


class QueueSteps(Machine):
    """Jobs, from their enqueue to their end, and the settings of their queues."""

    # -- producers -----------------------------------------------------------------------------

    @rule(
        member=members,
        queue=queues,
        names=st.lists(labels, max_size=8),
        keys=st.lists(uniques, min_size=8, max_size=8),
        turns=st.lists(turns, min_size=8, max_size=8),
        priority=priorities,
        delay=delays,
        attempts=st.sampled_from([None, None, None, 1, 2]),
        alone=st.booleans(),
        undo=seldom,
        once=once,
    )
    def enqueue(
        self,
        member: int,
        queue: str,
        names: list[str | None],
        keys: list[str | None],
        turns: list[str | None],
        priority: int | None,
        delay: timedelta | None,
        attempts: int | None,
        alone: bool,
        undo: bool,
        once: str | None = None,
    ) -> None:
        options: dict[str, Any] = {
            "priority": priority,
            "delay": delay,
            "max_attempts": attempts,
        }
        if alone:
            label = names[0] if names else None
            content = self.content(turns[0])
            options["label"] = label
            options["unique_key"] = keys[0]
            options["idempotency_key"] = once
            given, model = vars(content), (queue, content)
        else:
            contents, given = self.batch(turns[: len(names)], True)
            options["labels"] = names
            options["unique_keys"] = keys[: len(names)]
            model = (queue, contents)
        self.step(
            member,
            "enqueue" if alone else "enqueue_batch",
            queue,
            **given,
            **options,
            undo=undo,
            model=model,
            extra=options,
        )

    def fill_queue(self, queue: str) -> None:
        """So that there is something to claim."""
        names, keys = [None, "usual", "rare", None], [None, None, "one", None]
        turns = ["k", None, "k", "k"]
        self.enqueue(0, queue, names, keys, turns, None, timedelta(0), None, False, False)

    # -- workers -------------------------------------------------------------------------------

    def note_claim(self, got: Any) -> None:
        """What was claimed can be ended; what was found to be lost has become a dead letter."""
        if isinstance(got, list) and got:
            self.tokens.append((got[0].lease_token, [job.job_id for job in got]))
        for letter in self.run.clients[0].jobs.dead_letters():
            if letter.died_at == self.broker.now:
                self.broker.buried(letter.queue, [letter.job_id])
        for name, known in self.broker.queues.items():
            if known.ordered or known.max_leased_per_key is not None:
                left = self.run.connections[0].execute(
                    "select job_id from pgq.job inner join pgq.queue using (queue_id)"
                    " where queue = %s",
                    [name],
                )
                self.broker.vanished(name, {job_id for (job_id,) in left})

    @rule(
        member=members,
        queue=queues,
        size=sizes,
        lease=leases,
        label=labels,
        full=st.booleans(),
        undo=seldom,
        data=st.data(),
    )
    def work(
        self,
        member: int,
        queue: str,
        size: int | None,
        lease: timedelta | None,
        label: str | None,
        full: bool,
        undo: bool,
        data: st.DataObject,
    ) -> None:
        """Claim jobs, and end some of them now or later."""
        if full:
            self.fill_queue(queue)
        got = self.step(
            member, "claim_job", queue, max_jobs=size, lease=lease, label=label, undo=undo
        )
        self.note_claim(got)
        if data.draw(st.booleans()):
            self.end_jobs(member, 0, False, False, data)

    @rule(member=members, queue=queues, full=st.booleans(), data=st.data())
    def try_again_and_again(self, member: int, queue: str, full: bool, data: st.DataObject) -> None:
        """Jobs are finished, kept, given back or lost, until some are dead; those are revived."""
        if full:
            self.fill_queue(queue)
        for _ in range(data.draw(st.integers(1, 6))):
            size, lease = data.draw(sizes), data.draw(leases)
            got = self.step(member, "claim_job", queue, max_jobs=size, lease=lease, label=None)
            self.note_claim(got)
            what = data.draw(st.sampled_from(["keep", "give back", "lose", "finish", "reject"]))
            if what == "lose":
                self.move_clock(60)
            if not isinstance(got, list) or not got or what == "lose":
                continue
            ids, token = [job.job_id for job in got], got[0].lease_token
            if what == "keep":
                self.step(member, "extend_lease_batch", ids, token, lease=data.draw(leases))
            elif what == "finish":
                self.step(member, "ack_batch", ids, token)
            elif what == "reject":
                self.step(member, "reject_job", ids[0], token, error="no use")
            else:
                error = data.draw(st.sampled_from([None, "no answer"]))
                self.step(member, "nack_batch", ids, token, delay=timedelta(0), error=error)
        if data.draw(st.booleans()):
            self.step(member, "redrive", queue, job_id=None, all_jobs=True)
            self.run.forget_rooms()

    @rule(member=members, which=choices, stale=seldom, undo=seldom, data=st.data())
    def end_jobs(
        self, member: int, which: int, stale: bool, undo: bool, data: st.DataObject
    ) -> None:
        """Those of one of the last claims, the last one first."""
        what = data.draw(
            st.sampled_from(
                (
                    *("ack", "ack", "nack", "nack", "archive_job", "extend", "go on"),
                    *("release_job", "reject_job", "cancel_job"),
                )
            )
        )
        options: dict[str, Any] = {}
        if what == "nack":
            options["delay"] = data.draw(st.one_of(st.none(), st.just(timedelta(0)), seconds))
            options["error"] = data.draw(st.sampled_from([None, "out of order", "no answer"]))
        elif what == "archive_job":
            options["outcome"] = data.draw(st.sampled_from(["done", "refused", None]))
            options["result"] = data.draw(st.sampled_from([{"sum": 3}, [1, 2], "ok"]))
        elif what == "reject_job":
            options["error"] = data.draw(st.sampled_from([None, "no use"]))
        elif what == "extend":
            what = "extend_lease"
            options["lease"] = data.draw(leases)
        elif what == "go on":
            options["lease"] = data.draw(leases)
            options["label"] = data.draw(labels)
            options["max_jobs"] = data.draw(st.sampled_from([0, 1, 2, None]))
        queue = data.draw(queues)
        batch = data.draw(st.booleans())
        number = data.draw(choices)

        claims = [(token, ids) for token, ids in self.tokens if isinstance(ids, list)][:-5:-1]
        if not claims:
            return
        token, ids = claims[which % len(claims)]
        if stale:
            token = uuid4()
        some = ids[: number + 1]
        if what == "go on":
            got = self.step(
                member,
                "finish_and_claim",
                queue,
                job_ids=some,
                lease_token=token,
                **options,
                undo=undo,
            )
            self.note_claim(got)
        elif what == "cancel_job":
            # one of these, whoever has it by now, or one that waits
            known = [n for each in self.broker.queues.values() for n in each.jobs]
            known = [*ids, *sorted(known)]
            self.step(member, what, known[(which + number) % len(known)], undo=undo)
        elif batch and what != "reject_job":
            self.step(member, f"{what}_batch", some, token, **options, undo=undo)
        else:
            self.step(member, what, ids[number % len(ids)], token, **options, undo=undo)

    @rule(
        queue=queues,
        sizes=st.tuples(sizes, sizes),
        label=labels,
        full=st.booleans(),
        keep=st.booleans(),
    )
    def claim_side_by_side(
        self,
        queue: str,
        sizes: tuple[int | None, int | None],
        label: str | None,
        full: bool,
        keep: bool,
    ) -> None:
        """Another worker claims while the transaction of the first is open."""
        if full:
            self.fill_queue(queue)
        one, other = (
            {"max_jobs": size, "lease": None, "label": name}
            for size, name in zip(sizes, (label, None), strict=True)
        )

        def changed(before: Broker, after: Broker) -> set[int]:
            old, new = before.queues[queue].jobs, after.queues[queue].jobs
            return {n for n in old if new.get(n) != old[n]}

        known = self.broker.queues.get(queue)
        if known is not None and not is_limited(known):
            self.side_by_side(
                keep, ("claim_job", (queue,), one), ("claim_job", (queue,), other), changed
            )
            self.note_claim(None)

    # -- the queues themselves -----------------------------------------------------------------

    def make_queue(
        self,
        queue: str,
        max_attempts: int | None,
        job_ttl: timedelta | None,
        retention: timedelta | None,
        *,
        archive: bool | None = None,
        unique_until: str | None = None,
        ordered: bool | None = None,
        after_dead_letter: str | None = None,
        limits: dict[str, Any] | None = None,
    ) -> None:
        given = dict(limits or {})
        if queue == "mail":  # schedules write there, and would fail now and then
            given.pop("max_unfinished", None)
        free = "max_leased_per_key" not in given and given.get("on_duplicate") != "postpone"
        self.step(
            0,
            "create_queue",
            queue,
            **limited(max_attempts=max_attempts, job_ttl=job_ttl, retention=retention),
            backoff_max=timedelta(seconds=5),
            backoff_jitter=0.0,
            archive=archive,
            unique_until="claimed" if "on_duplicate" in given else unique_until,
            ordered=ordered and free,
            after_dead_letter=after_dead_letter,
            **given,
        )

    @rule(member=members, queue=queues, which=choices, undo=seldom, data=st.data())
    def look_after_jobs(
        self, member: int, queue: str, which: int, undo: bool, data: st.DataObject
    ) -> None:
        what = data.draw(
            st.sampled_from(["redrive", "redrive", "redrive", "read", "pause", "purge"])
        )
        known = self.broker.queues.get(queue)
        dead = [None, None, 0, *(known.dead if known else ())]
        if what == "redrive":
            job_id = dead[which % len(dead)]
            every = data.draw(seldom) or job_id is None
            if data.draw(seldom):
                every = not every
            self.step(
                member,
                "redrive",
                queue,
                job_id=job_id,
                all_jobs=every,
                max_jobs=data.draw(st.sampled_from([None, None, 1, 2])),
                per_second=data.draw(st.sampled_from([None, None, 0.5, 10.0])),
                undo=undo,
            )
            self.run.forget_rooms()
        elif what == "read":
            self.read_letters(member, queue, data.draw(st.sampled_from([1, 2, None])))
        elif what == "pause":
            # a queue that stays paused would show little
            self.step(member, "pause_queue", queue, undo=undo)
            got = self.step(member, "claim_job", queue, max_jobs=None, lease=None, label=None)
            self.note_claim(got)
            self.step(member, "resume_queue", queue)
        else:
            times = [letter.ended_at for letter in known.dead.values()] if known else []
            selectors: list[dict[str, Any]] = [
                *({"dead_only": True}, {"all_jobs": True}, {"dead_only": False}, {}),
                {"job_id": dead[which % len(dead)]},
                {"died_before": max([*times, self.broker.now - timedelta(minutes=1)])},
            ]
            chosen = selectors[data.draw(choices) % len(selectors)]
            self.step(member, "purge_queue", queue, **chosen, undo=undo)

    def read_letters(self, member: int, queue: str, max_jobs: int | None) -> None:
        """Page by page."""
        page = self.step(member, "fetch_dead_letters", queue, max_jobs=max_jobs)
        while isinstance(page, list) and page:
            after = {"after_died_at": page[-1].died_at, "after_job_id": page[-1].job_id}
            page = self.step(member, "fetch_dead_letters", queue, max_jobs=max_jobs, **after)

    @rule(member=members, queue=queues, undo=seldom, data=st.data())
    def rearrange_queues(self, member: int, queue: str, undo: bool, data: st.DataObject) -> None:
        what = data.draw(st.sampled_from(["alter", "alter", "create", "drop"]))
        ttl, keep = data.draw(lives), data.draw(lives)
        attempts = data.draw(st.sampled_from([1, 2, 5]))
        if what == "alter":
            known = self.broker.queues.get(queue)
            keep = keep if known and known.retention else None  # one that has none gets none
            self.step(
                *(member, "alter_queue", queue),
                lease=data.draw(leases),
                max_attempts=attempts,
                delay=data.draw(st.sampled_from([timedelta(0), timedelta(seconds=10), None])),
                **(limited(job_ttl=ttl, retention=keep) if data.draw(st.booleans()) else {}),
                archive=data.draw(st.sampled_from([True, False, None])),
                after_dead_letter=data.draw(dead_ends),
                undo=undo,
            )
        elif what == "create" and queue in self.broker.queues:
            given: list[dict[str, Any]] = [
                {},
                limited(retention=keep),
                limited(job_ttl=ttl),
                {"max_attempts": attempts},
            ]
            self.step(member, "create_queue", queue, **data.draw(st.sampled_from(given)), undo=undo)
        elif what == "drop":
            self.step(member, "drop_queue", queue, undo=undo)
            self.step(member, "resume_queue", queue)
        if queue not in self.broker.queues:
            mode = data.draw(st.sampled_from(MODES))
            self.make_queue(
                queue,
                3,
                ttl,
                keep,
                unique_until=mode,
                ordered=data.draw(st.booleans()),
                after_dead_letter=data.draw(dead_ends),
                limits=data.draw(limits),
            )
