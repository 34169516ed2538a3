"""What must hold of each call, and of the database when a plan has ended."""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.catalog import Function
from fuzz.link import Answer, Link
from fuzz.plans import Call
from stored_state import NEVER

__all__ = ["Finding", "check_answer", "check_error", "check_state", "says_nothing_changed"]

RETRIED = {"40001", "40P01", "55P03"}
"""They are said of others who work at the same time, and here is nobody else."""

# Codes that PostgreSQL raises where the function hands on what it was given: the text says what of.
HANDED_ON: dict[str, frozenset[str]] = {
    # the contents of a chunk become JSON there
    "write_chunk": frozenset({"22003", "22021", "22P02", "22P05", "54001"}),
    # who may not create roles is told so by PostgreSQL
    "create_roles": frozenset({"42501"}),
    # and who is not the owner
    "set_storage_bounds": frozenset({"42501"}),
}

# Numbers that may be below zero, and are then what they say, or nothing that there is.
SIGNED = {"pid", "seq"}
NOTHING_THERE = {
    *("job_id", "after_job_id", "job_ids", "first_partition_id"),
    # a range whose last offset is below its first one is empty
    *("first_offset", "last_offset"),
}
"""Numbers for which there is nothing where they are below zero, which is an answer."""


class Finding(Exception):
    """A promise that was broken; ``kind`` and ``where`` tell findings apart."""

    def __init__(self, kind: str, where: str, told: str) -> None:
        super().__init__(f"{kind}: {where}: {told}")
        self.kind = kind
        self.where = where

    @property
    def signature(self) -> str:
        return f"{self.kind}: {self.where}"


def check_error(function: Function, answer: Answer) -> Finding | None:
    """What is wrong with an error, if the types of the arguments are not what it is about."""
    code = answer.code
    where = f"{function.name} {code}"
    if code == "57014":
        return Finding("endless", function.name, str(answer))
    if code in RETRIED:
        return Finding("conflict with nobody", where, str(answer))
    if code not in function.codes:
        return Finding("undocumented", where, str(answer))
    if answer.raised_by != "exec_stmt_raise" and code not in HANDED_ON.get(
        function.name, frozenset()
    ):
        return Finding("raised by PostgreSQL", where, str(answer))
    return None


def says_nothing_changed(function: Function, answer: Answer, level: str) -> bool:
    """Whether this answer means that all is as it was."""
    if not function.volatile:
        return True
    if level != "read committed":
        # there a call that changes nothing may note so, for others to conflict with
        return False
    if function.result == "boolean":
        return [*answer.rows[0].values()] == ["f"]
    return function.result == "bigint" and function.name.endswith("_batch") and not answer.rows


def check_answer(function: Function, call: Call, answer: Answer, clock: str) -> Iterator[Finding]:
    """What is wrong with a call that succeeded."""
    for name, _, value in call.arguments:
        where = f"{function.name}({name})"
        if value.traits & {"null"} and name in function.required:
            yield Finding("accepted null", where, value.sql)
        elif value.traits & {"negative"} and name not in SIGNED | NOTHING_THERE:
            yield Finding("accepted a negative", where, value.sql)
        elif value.traits & {"nan", "huge", "two dimensions"}:
            yield Finding("accepted the impossible", where, value.sql)
    for row in answer.rows:
        for name, found in row.items():
            if isinstance(found, int) and found < 0 and name not in SIGNED:
                yield Finding("negative figure", f"{function.name}.{name}", str(found))
        until = row.get("leased_until")
        given_out = function.volatile and "lease_token" in row
        if given_out and isinstance(until, str) and until < clock:
            yield Finding("lease in the past", function.name, f"{until}, and it is {clock}")


# Must find nothing, besides what stored_state asks.
WRONG_OFFSETS = """
select t.topic, o.partition, o.first_offset, o.last_offset, f.messages
from pgq.topic as t
cross join lateral pgq.list_offsets(t.topic) as o
cross join lateral (
    select count(*) as messages, min(r.log_offset) as first, max(r.log_offset) as last
    from pgq.fetch_range(t.topic, o.partition, o.first_offset, o.last_offset) as r
    where o.last_offset >= o.first_offset
) as f
where f.messages <> o.last_offset - o.first_offset + 1
    or f.first <> o.first_offset or f.last <> o.last_offset
"""

# Each must be answered, whatever calls came before.
READS = [
    "select * from pgq.messages",
    "select * from pgq.topic_stats",
    "select * from pgq.archived_jobs",
    "select * from pgq.dead_letters",
    "select * from pgq.effects",
    "select p.* from pgq.topic as t cross join lateral pgq.list_offsets(t.topic) as o"
    " cross join lateral pgq.fetch_packed(t.topic, o.partition, o.first_offset, o.last_offset) as p"
    " where o.last_offset >= o.first_offset",
    "select w.* from pgq.topic as t cross join lateral pgq.watermark(t.topic) as w (moment)",
    "select w.* from pgq.queue as q cross join lateral pgq.peek_jobs(q.queue) as w",
    "select w.* from pgq.queue as q cross join lateral pgq.fetch_dead_letters(q.queue) as w",
]

# What the house and its workers do next, which must go on.
GO_ON = [
    "select * from pgq.run_schedules(10)",
    "select a.* from pgq.topic as t cross join lateral pgq.assign_offsets(t.topic) as a",
    "select c.* from pgq.queue as q cross join lateral pgq.claim_job(q.queue, 20) as c",
]


def check_state(link: Link, functions: list[Function], read_committed: bool) -> Iterator[Finding]:
    """Whether all can still be read, and goes on; it leaves the database changed."""
    for kind, statement in {**NEVER, "wrong offsets": WRONG_OFFSETS}.items():
        answer = link.ask(statement)
        if answer.code is not None or answer.rows:
            yield Finding("state", kind, str(answer))
    reads = [
        f"select * from pgq.{function.name}()"
        for function in functions
        if not function.volatile and not function.required
    ]
    house = ["select * from pgq.cleanup()"] * 2 if read_committed else []
    for statement in [*READS, *reads, *GO_ON, *house]:
        answer = link.ask(statement)
        if answer.code is not None:
            yield Finding(
                "cannot go on", f"{' '.join(statement.split())} {answer.code}", str(answer)
            )
