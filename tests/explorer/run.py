"""Runs a trial on real connections, in the order of its steps, and notes what happened.

A step that is blocked by another session is left pending, and the next step is begun; what a
session was to do behind it waits for it. Which sessions are blocked is seen by another connection,
so nothing is slept for.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from explorer.calls import known_from
from explorer.database import Answer, Database, Link, now, wait_for
from explorer.history import Event, History, Transaction
from explorer.script import ENDINGS, HOUSE, ROUND, Late, Step, Trial, Value
from explorer.statements import sql_of

__all__ = ["RETRIED", "Runner"]

RETRIED = ("40001", "40P01")
"""What a good client answers by trying the whole transaction again."""

PATIENCE = 60.0
"""Seconds after which a statement that nobody blocks counts as endless."""


class Actor:
    """A session: its connection, its transaction, and what it has still to do."""

    def __init__(self, link: Link, number: int) -> None:
        self.link = link
        self.number = number
        self.level: str | None = None
        self.transaction: Transaction | None = None
        self.begun = False
        self.busy: Event | None = None
        self.backlog: deque[Step] = deque()
        self.paused_for = 0
        self.counts_gates = False
        self.lock_timeout = "0"

    def wait_for_locks(self, timeout: str) -> None:
        """Say how long the next statement may wait for a lock; 0 is for ever."""
        if timeout != self.lock_timeout:
            self.link.rows(f"set lock_timeout = '{timeout}'")
            self.lock_timeout = timeout


class Runner:
    """Runs trials in a database, on connections that are kept."""

    def __init__(self, database: Database, sessions: int = 6) -> None:
        self.database = database
        self.actors = [Actor(Link(database.dsn), number) for number in range(sessions + 1)]
        self.trial: Trial
        self.history: History
        self._known: dict[str, list[tuple[int, dict[str, Value]]]] = {}
        self._tried = 0

    def close(self) -> None:
        for actor in self.actors:
            actor.link.close()

    def limit(self, timeout: str) -> None:
        """Let statements take no longer than this."""
        for actor in self.actors:
            actor.link.rows(f"set statement_timeout = '{timeout}'")

    def _stop_at(self, actor: Actor, pause: tuple[int, int] | None) -> str:
        """What has to be said before a statement that is to stop at a gate, or not to stop."""
        if pause is None:
            counted, actor.counts_gates = actor.counts_gates, False
            return "set explorer.pause = 0; " if counted else ""
        gate, actor.paused_for = pause
        actor.counts_gates = True
        self.database.house.rows(f"select pg_advisory_lock({actor.link.pid})")
        return f"set explorer.pause = {gate}; "

    def _let_go(self, actor: Actor) -> None:
        if actor.paused_for:
            actor.paused_for = 0
            self.database.house.rows(f"select pg_advisory_unlock({actor.link.pid})")

    def run(self, trial: Trial) -> History:
        """Run the trial; the database is left as it is then."""
        self.database.empty()
        self.trial = trial
        self.history = History()
        self._known = {}
        self._tried = 0
        for actor in self.actors[: len(trial.levels) + 1]:
            actor.level = trial.level(actor.number)
        for step in trial.part("setup"):
            self._perform(step)
        for step in trial.part("steps"):
            self._perform(step)
        self._finish()
        self._retry()
        for step in trial.part("tail"):
            self._perform(step)
        self._finish()
        return self.history

    # ------------------------------------------------------------------ steps

    def _perform(self, step: Step) -> None:
        if step.call == ROUND:
            self._finish()
            self._retry()
            self._known = {}
            return
        actor = self.actors[step.session]
        for paused in self.actors:
            if paused.paused_for == 1:
                self._let_go(paused)
                self._settle(None)
            else:
                paused.paused_for = max(paused.paused_for - 1, 0)
        if actor.busy is not None or actor.backlog:
            actor.backlog.append(step)
        else:
            self._begin(actor, step)
        self._catch_up()

    def _catch_up(self) -> None:
        """Begin what waited for a session that has become free."""
        while True:
            waiting = next((a for a in self.actors if a.backlog and a.busy is None), None)
            if waiting is None:
                return
            self._begin(waiting, waiting.backlog.popleft())

    def _begin(self, actor: Actor, step: Step) -> None:
        self.history.tick += 1
        if step.call in ENDINGS:
            self._end(actor, step.call)
            return

        transaction = actor.transaction
        if transaction is None:
            transaction = self._new_transaction(actor)
        transaction.steps.append(step)
        arguments = self.resolved(step)
        if arguments is None or transaction.over:
            if actor.level is None:
                actor.transaction = None
            return

        statement = sql_of(step.call, arguments)
        if step.pause is not None:
            statement += " /* stops at gate {}, for {} steps */".format(*step.pause)
        event = Event(
            step.call,
            arguments,
            transaction,
            len(transaction.events),
            self.history.tick,
            statement,
        )
        transaction.events.append(event)
        if actor.number != HOUSE:  # nobody is beside the house
            actor.wait_for_locks(self.trial.lock_timeout if step.call == "cleanup" else "0")
        statement = self._stop_at(actor, step.pause) + statement
        if actor.level is not None and not actor.begun:
            actor.begun = True
            statement = f"begin isolation level {actor.level}; {statement}"
            transaction.started = self.history.tick
        actor.busy = event
        actor.link.send(statement)
        self._settle(actor)

    def _new_transaction(self, actor: Actor) -> Transaction:
        transaction = Transaction(
            actor.number, actor.level, len(self.history.transactions), self.history.tick
        )
        transaction.pid = actor.link.pid
        self.history.transactions.append(transaction)
        actor.transaction = transaction
        actor.begun = False
        return transaction

    def _end(self, actor: Actor, ending: str) -> None:
        transaction = actor.transaction
        if transaction is None:
            return
        transaction.ending = ending
        actor.transaction = None
        if not actor.begun:
            return
        answer = actor.link.ask(ending)
        transaction.ended = self.history.tick
        transaction.committed = (
            ending == "commit" and transaction.failed is None and answer.code is None
        )
        if not transaction.committed:
            actor.lock_timeout = "?"  # what was set within it is taken back
        self._note(f"{self._who(transaction)}: {ending}", answer if answer.code else None)
        if answer.code is not None:
            failed = Event(ending, {}, transaction, 99, self.history.tick, ending)
            failed.answer = answer
            failed.ended = self.history.tick
            transaction.events.append(failed)
        self._settle(None)

    def resolved(self, step: Step) -> dict[str, Value] | None:
        """The arguments, those that only the run knows among them; None: there is nothing yet."""
        late = step.arguments.get("*")
        if late is None:
            return step.arguments
        assert isinstance(late, Late)
        known = self._known.get(late.kind, [])
        if not known:
            return None
        own = [values for session, values in known if session == step.session]
        others = [values for session, values in known if session != step.session]
        both = own[::-1] + others[::-1]
        rest = {name: value for name, value in step.arguments.items() if name != "*"}
        return {**both[late.nth % len(both)], **rest}

    # ------------------------------------------------------------------ answers

    def _settle(self, trigger: Actor | None) -> None:
        """Return when every session is idle, or blocked by one that will do something later."""
        began = now()
        patient = trigger is not None
        while True:
            ended = [a for a in self.actors if a.busy is not None and a.link.ready()]
            for actor in ended:
                self._complete(actor, actor is trigger)
            if ended:
                continue
            busy = [a for a in self.actors if a.busy is not None]
            if not busy:
                return
            links = [a.link for a in busy]
            if patient:
                patient = False
                wait_for(links, 0.002)
                continue
            blockers = self._blockers([link.pid for link in links])
            if all(blockers.values()):
                if not _in_circle(blockers):
                    for actor in busy:
                        self._mark_waiting(actor)
                    return
                wait_for(links, 0.05)
            else:
                wait_for(links, 0.005)
            if now() - began > PATIENCE:
                self.history.violate(
                    "endless",
                    "; ".join(a.busy.statement for a in busy if a.busy is not None),
                )
                raise TimeoutError("a statement does not end")

    def _blockers(self, pids: list[int]) -> dict[int, list[int]]:
        """By which sessions of the trial each of these is blocked.

        What another process has locked, autovacuum for one, will soon be free.
        """
        own = {self.database.house.pid, *(actor.link.pid for actor in self.actors)}
        found = self.database.blockers(pids)
        return {pid: [by for by in found[pid] if by in own] for pid in pids}

    def _mark_waiting(self, actor: Actor) -> None:
        event = actor.busy
        if event is not None and not event.waited:
            event.waited = True
            self._note(f"{self._who(event.transaction)}: {event.statement}", "waits")

    def _complete(self, actor: Actor, is_trigger: bool) -> None:
        event = actor.busy
        assert event is not None
        actor.busy = None
        self._let_go(actor)
        answer = event.answer = actor.link.receive()
        event.ended = self.history.tick
        transaction = event.transaction
        self._note(
            f"{self._who(transaction)}: {event.statement}"
            if not event.waited
            else f"{self._who(transaction)}: … {event.call}",
            answer,
        )
        if answer.code is not None:
            transaction.over = True
        if actor.level is None or answer.code is not None:
            transaction.ended = self.history.tick
            transaction.place = 0 if is_trigger else 1
        if actor.level is None:
            transaction.committed = answer.code is None
            actor.transaction = None
        if answer.code is None:
            if event.call == "move_clock":
                self.history.moves.append((event.ended, int(event.arguments["seconds"])))
            for kind, values in known_from(event.call, event.arguments, answer.rows):
                self._known.setdefault(kind, []).append((actor.number, values))

    def _finish(self) -> None:
        """Let every session come to its end; those that are not blocked commit first."""
        while True:
            for actor in self.actors:
                self._let_go(actor)
            self._settle(None)
            self._catch_up()
            if any(actor.paused_for for actor in self.actors):
                continue
            idle = [a for a in self.actors if a.busy is None and a.transaction is not None]
            if idle:
                self._perform(Step(idle[0].number, "commit"))
                continue
            busy = [a for a in self.actors if a.busy is not None]
            if not busy:
                return
            # only a lock timeout, or a deadlock seen late, can still end these
            wait_for([a.link for a in busy], 0.05)
            self._settle(None)
            still = [a for a in self.actors if a.busy is not None]
            if len(still) == len(busy) and all(a.lock_timeout == "0" for a in still):
                self.history.violate(
                    "stuck", "sessions wait for each other and no deadlock is seen"
                )
                for actor in still:
                    actor.link.connection.get_cancel().cancel()
                wait_for([a.link for a in still], 5)
                self._settle(None)

    def _retry(self) -> None:
        """Try what was told to be tried again, alone: it must succeed then."""
        for failed in self.history.transactions[self._tried :]:
            if failed.failed not in RETRIED:
                continue
            actor = self.actors[failed.session]
            before = len(self.history.transactions)
            for step in failed.steps:
                self._perform(replace(step, pause=None))
            if actor.transaction is not None:
                self._perform(Step(actor.number, failed.ending))
            for again in self.history.transactions[before:]:
                again.alone = True
        self._tried = len(self.history.transactions)

    # ------------------------------------------------------------------ the record

    def _who(self, transaction: Transaction) -> str:
        if transaction.session == HOUSE:
            return "house"
        level = transaction.level or "autocommit"
        return f"session {transaction.session} ({level})"

    def _note(self, text: str, answer: Answer | str | None) -> None:
        told = f"  -> {answer}" if answer is not None and str(answer) else ""
        self.history.log.append(f"{text}{told}")


def _in_circle(blockers: dict[int, list[int]]) -> bool:
    """Whether some of the processes wait for each other."""
    for start in blockers:
        seen: set[int] = set()
        todo = list(blockers[start])
        while todo:
            pid = todo.pop()
            if pid == start:
                return True
            if pid in blockers and pid not in seen:
                seen.add(pid)
                todo.extend(blockers[pid])
    return False
