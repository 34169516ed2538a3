"""Steps of workers whose jobs do something elsewhere that is to happen once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from model.drawn import choices, members, queues, seldom
from model.queue_steps import QueueSteps

__all__ = ["EffectSteps"]

names = st.sampled_from([*["mail"] * 5, "payment", "payment", "", "x" * 256, None])
results = st.sampled_from([None, None, "sent", 0, {"id": 7}, [None]])
repeated = st.sampled_from([None, None, False, True])
endings = st.sampled_from(["nack", "nack", "lose", "release_job", "reject_job", "ack"])


class EffectSteps(QueueSteps):
    """Effects of jobs that are leased, were lost, wait, are dead, or have ended."""

    @rule(
        member=members,
        queue=queues,
        full=st.booleans(),
        name=st.sampled_from(["mail", "payment"]),
        again=repeated,
        data=st.data(),
    )
    def run_once(
        self,
        member: int,
        queue: str,
        full: bool,
        name: str,
        again: bool | None,
        data: st.DataObject,
    ) -> None:
        """Attempts of a few jobs, each of which looks whether it has to do it, and may crash."""
        if full:
            self.fill_queue(queue)
        for _ in range(data.draw(st.integers(1, 4))):
            got = self.step(member, "claim_job", queue, max_jobs=2, lease=None, label=None)
            self.note_claim(got)
            ending = data.draw(endings)
            what = data.draw(st.sampled_from(["finish", "finish", "crash", "crash", "nothing"]))
            for job in got if isinstance(got, list) else []:
                held = (job.job_id, job.lease_token, name)
                begun = self.step(member, "begin_effect", *held, at_least_once=again)
                if begun.state == "begun" and what == "finish":
                    self.step(member, "finish_effect", *held, result=data.draw(results))
                elif begun.state == "begun" and what == "nothing":
                    self.step(member, "delete_effect", *held)
            if ending == "lose":
                self.move_clock(30)
                continue
            options: dict[str, Any] = {}
            if ending == "nack":
                options = {"delay": timedelta(0), "error": "no"}
            elif ending == "reject_job":
                options = {"error": "no"}
            for job in got if isinstance(got, list) else []:
                self.step(member, ending, job.job_id, job.lease_token, **options)
        if data.draw(st.booleans()):
            self.step(member, "redrive", queue, job_id=None, all_jobs=True)
            self.run.forget_rooms()

    @rule(
        member=members,
        which=choices,
        place=choices,
        what=st.sampled_from(["begin", "begin", "finish", "finish", "forget"]),
        name=names,
        again=repeated,
        result=results,
        odd=seldom,
        undo=seldom,
    )
    def use_effect(
        self,
        member: int,
        which: int,
        place: int,
        what: str,
        name: str | None,
        again: bool | None,
        result: Any,
        odd: bool,
        undo: bool,
    ) -> None:
        """By the token of a claim, whatever has become of the job, or by that of the note."""
        known: list[tuple[int, UUID]] = [
            (number, token)
            for token, ids in self.tokens[:-20:-1]
            if isinstance(ids, list)
            for number in ids
        ]
        noted = [(job_id, note.lease_token) for (job_id, _), note in self.broker.effects.items()]
        known = noted if which % 3 == 0 and noted else known
        if not known:
            return
        job_id, token = known[(which + place) % len(known)]
        held = (job_id, uuid4() if odd else token, name)
        if what == "begin":
            self.step(member, "begin_effect", *held, at_least_once=again, undo=undo)
        elif what == "finish":
            self.step(member, "finish_effect", *held, result=result, undo=undo)
        else:
            self.step(member, "delete_effect", *held, undo=undo)

    @invariant()
    def effects_are_known(self) -> None:
        """Those of jobs that are there in the view, and all of them until cleanup has come."""
        rows = self.run.connections[1].execute(
            "select job_id, effect, lease_token, attempt, begun_at, finished_at, result"
            " from pgq.effect order by job_id, effect"
        )
        effects = self.broker.effects
        assert rows.fetchall() == [
            (*place, n.lease_token, n.attempt, n.begun_at, n.finished_at, n.result)
            for place, n in sorted(effects.items())
        ]
        expected = []
        for name, queue in self.broker.queues.items():
            jobs = {**queue.jobs, **dict.fromkeys(queue.dead)}
            for (job_id, effect), noted in effects.items():
                if job_id not in jobs:
                    continue
                job = jobs[job_id]
                busy = job is not None and job.visible_at > self.broker.now
                state = "interrupted"
                if noted.finished_at is not None:
                    state = "finished"
                elif busy and job is not None and job.lease_token == noted.lease_token:
                    state = "begun"
                expected.append((name, job_id, effect, state, noted.result))
        assert sorted(expected, key=str) == sorted(
            (
                (e.queue, e.job_id, e.effect, e.state, e.result)
                for e in self.run.clients[0].jobs.effects()
            ),
            key=str,
        )
