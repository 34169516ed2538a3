"""The database that plans are played on, the same at the beginning of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

import explorer.database
from explorer.plant import Fault, plant
from fuzz.catalog import Catalog, read_catalog
from fuzz.checks import Finding, check_answer, check_error, check_state, says_nothing_changed
from fuzz.link import Link, Lost
from fuzz.plans import Call, Plan, Plans
from support.calls import prepare
from support.clock import Clock
from support.house import load_pgq
from support.session import Session

__all__ = ["World"]

GUEST = "pgq_fuzz_guest"

LOCKS = {"access_change"}
"""Tables whose rows say nothing, but are changed by whoever has to be the only one."""

SETTINGS = " ".join(
    f"-c {setting}"
    for setting in (
        "statement_timeout=300s",
        "client_min_messages=error",
        "synchronous_commit=off",
        "timezone=UTC",
    )
)

# A clock that stands still, so that a plan is the same again, and goes on when it is told to.
CLOCK = """
    create or replace function pgq._clock()
    returns timestamptz language sql volatile parallel safe
    as $$
    select '2030-01-01 00:00+00'::timestamptz
        + '1 microsecond'::interval * pg_sequence_last_value('public.clock_offset')
    $$
"""


class World:
    """Databases on a server: one as it was made, one to roll back in, one to commit in."""

    def __init__(self, server_dsn: str, name: str, template: str | None = None) -> None:
        """``template`` is a database that has pgq already."""
        self._server_dsn = server_dsn
        self._name = name
        self._made = f"{name}_made"
        self.counts: Counter[tuple[str, str]] = Counter()
        self.link: Link | None = None
        self._server = psycopg.connect(server_dsn, autocommit=True)
        self._make(template)
        self.open()

    # ---------------------------------------------------------------------- databases

    def _make(self, template: str | None) -> None:
        dsn = self._dsn(self._made)
        if template is None:
            self._drop(self._made)
            self._execute("create database {} template template0", self._made)
            load_pgq(conninfo=dsn)
        else:
            self._copy(self._made, template)
        Clock(dsn).install()
        with Session.connect(dsn, autocommit=True) as session:
            session.execute(CLOCK)
            prepare(session)
            _prepare_more(session)
            self.catalog = read_catalog(session)
            self.plans = Plans(self.catalog, session)
            _admit_guest(session, self.catalog)

    @contextmanager
    def planted(self, fault: Fault) -> Iterator[None]:
        """The fault is there while in the block, but not where calls are committed."""
        house = explorer.database.Link(self._dsn(self._name))
        try:
            house.rows("create schema explorer")
            plant(house, fault)
            house.rows(f"alter function pgq.{fault.function} security definer")
        finally:
            house.close()
        yield
        self.open()

    def open(self) -> None:
        """Begin with the database as it was made."""
        if self.link is not None:
            self.link.close()
        self._copy(self._name, self._made)
        self.link = Link(self._dsn(self._name))

    def close(self) -> None:
        if self.link is not None:
            self.link.close()
        for name in (self._name, f"{self._name}_committed", self._made):
            self._drop(name)
        with suppress(psycopg.errors.DependentObjectsStillExist):
            self._server.execute(f"drop role if exists {GUEST}")
        self._server.close()

    def _copy(self, name: str, source: str) -> None:
        self._drop(name)
        files = self._server.info.server_version >= 150000
        self._execute(
            "create database {} template {}" + (" strategy file_copy" if files else ""),
            name,
            source,
        )

    def _drop(self, name: str) -> None:
        self._execute("drop database if exists {} with (force)", name)

    def _execute(self, statement: str, *names: str) -> None:
        self._server.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def _dsn(self, name: str) -> str:
        return make_conninfo(self._server_dsn, dbname=name, options=SETTINGS)

    # ---------------------------------------------------------------------- plans

    def play(self, plan: Plan) -> None:
        """Call what the plan says; a Finding is raised where a promise is broken."""
        assert self.link is not None
        try:
            if plan.committed:
                name = f"{self._name}_committed"
                self._copy(name, self._made)
                link = Link(self._dsn(name))
                try:
                    link.do(f"set default_transaction_isolation = '{plan.level}'")
                    self._calls(link, plan)
                    link.do("set default_transaction_isolation = 'read committed'")
                    self._end(link, plan, True)
                finally:
                    link.close()
            else:
                self.link.do("select setval('public.clock_offset', 0)")
                self.link.do(f"begin isolation level {plan.level}")
                try:
                    self._calls(self.link, plan)
                    self._end(self.link, plan, plan.level == "read committed")
                finally:
                    self.link.ask("rollback")
        except Lost as error:
            self.open()
            raise Finding("server", "connection lost", str(error)) from None

    def _end(self, link: Link, plan: Plan, read_committed: bool) -> None:
        if not plan.looked_at:
            return
        for finding in check_state(link, [*self.catalog.values()], read_committed):
            raise finding

    def _calls(self, link: Link, plan: Plan) -> None:
        before = link.contents()
        for call in plan.calls:
            before = self._call(link, plan, call, before)

    def _call(
        self, link: Link, plan: Plan, call: Call, before: dict[str, tuple[int, int]]
    ) -> dict[str, tuple[int, int]]:
        if not call.function:
            link.do(str(call))
            return before
        function = self.catalog[call.function]
        if plan.guest:
            link.do(f"set role {GUEST}")
        if not plan.committed:
            link.do("savepoint before")
        answer = link.ask(str(call))
        if not plan.committed:
            link.do("release before" if answer.code is None else "rollback to before")
        if plan.guest:
            link.do("reset role")
        self.counts[call.function, answer.code or "success"] += 1
        if link.in_transaction == plan.committed:
            raise Finding("session", call.function, "it is not in the transaction it was in")
        after = link.contents()
        if answer.code is not None:
            finding = check_error(function, answer)
            if finding is not None and not self._refused_before(link, plan, call, answer.code):
                raise finding
        else:
            clock = str(link.do("select pgq._clock() as moment")[0]["moment"])
            for finding in check_answer(function, call, answer, clock):
                raise finding
        unchanged = answer.code is not None or says_nothing_changed(function, answer, plan.level)
        tables = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        if answer.code is None:
            tables -= LOCKS
        if unchanged and tables:
            raise Finding("changed", call.function, f"{answer}: {sorted(tables)}")
        return after

    def _refused_before(self, link: Link, plan: Plan, call: Call, code: str) -> bool:
        """Whether PostgreSQL does not take the arguments, so that the function was not called."""
        if not call.arguments:
            return False
        if not plan.committed:
            link.do("savepoint before")
        answer = link.ask(call.values)
        if not plan.committed:
            link.do("rollback to before")
        return answer.code == code


def _admit_guest(session: Session, catalog: Catalog) -> None:
    """A role that may call everything, as far as EXECUTE goes."""
    with suppress(psycopg.errors.DuplicateObject):
        session.execute(f"create role {GUEST}")
    functions = ", ".join(f"pgq.{function}" for function in catalog)
    # what names a job or a lease in a call is looked up by who calls
    session.execute(
        f"grant usage on schema pgq, public to {GUEST};"
        f" grant select on all tables in schema pgq to {GUEST};"
        f" grant execute on function {functions} to {GUEST}".encode()
    )


def _prepare_more(session: Session) -> None:
    """Topics and queues of other kinds, with something in them."""
    session.create_topic(topic="late", deferred=True)
    session.create_topic(topic="many", partitions=3)
    for topic in ("late", "many"):
        session.create_group(topic=topic, consumer_group="g")
        session.publish_batch(
            topic=topic,
            payloads=[Jsonb(n) for n in range(5)],
            keys=[*"abcab"],
            idempotency_keys=[*"vwxyz"],
        )
    session.create_queue(queue="ordered", ordered=True, unique_until="claimed")
    session.create_queue(queue="limited", max_leased=3, max_leased_per_key=1, max_unfinished=9)
    for queue in ("ordered", "limited"):
        session.enqueue_batch(
            queue=queue,
            payloads=[Jsonb(n) for n in range(5)],
            keys=[*"aabbc"],
            labels=[None, *"lmlm"],
            unique_keys=[*"vwxyz"],
        )
        session.claim_job(queue=queue, max_jobs=2)
