"""What goes wrong on purpose at the end of a fault run, so that a test sees it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from fault_runs.evidence import Evidence, Unit
from fault_runs.streams import COPIED, COPIES
from support.session import Session

__all__ = ["PLANTED", "Planted", "copy"]

Plant = Callable[[Evidence, Session], None]


@dataclass(frozen=True)
class Planted:
    """A fault, and the kind of broken promise that gives it away."""

    kind: str
    plant: Plant


def _sql(kind: str, command: str) -> Planted:
    """A fault in what is stored."""
    return Planted(kind, lambda evidence, session: _run(session, command))


def _run(session: Session, command: str) -> None:
    done = session.execute(command.encode())
    assert done.rowcount > 0


# The partition of the log that has most, and places in it.
PARTITION = (
    "(select p.partition_id from pgq.partition as p inner join pgq.topic as t using (topic_id)"
    " where t.topic = '{}' and p.partition = 0)"
)
LOG = PARTITION.format("log")
BULK = PARTITION.format("bulk")


def _copy_payload(partition: str, to: int, source: int) -> str:
    return (
        "update pgq.message as m set payload = (select n.payload from pgq.message as n"
        f" where (n.partition_id, n.log_offset) = ({partition}, {source}))"
        f" where (m.partition_id, m.log_offset) = ({partition}, {to})"
    )


def _first(evidence: Evidence, role: str, **wanted: Any) -> Unit:
    """The first unit that was acknowledged, of a role and about something."""
    for unit in evidence.of(role):
        if unit.done and all(unit.about.get(name) == value for name, value in wanted.items()):
            return unit
    raise AssertionError(f"no {role} with {wanted}")


def _late_commit(evidence: Evidence, session: Session) -> None:
    units = [
        unit
        for unit in evidence.of("publish")
        if unit.done and unit.about["topic"] == "log" and unit.told["places"][0][0] == 0
    ]
    units.sort(key=lambda unit: unit.told["places"][0][1])
    units[-1].began = units[-1].ended = units[0].began - 1


def _never_got(evidence: Evidence, session: Session) -> None:
    evidence.units = [
        unit for unit in evidence.units if unit.role != "poll" or unit.told.get("partition") != 0
    ]


def _acknowledged_position(evidence: Evidence, session: Session) -> None:
    unit = _first(evidence, "commit", group="manual")
    unit.about = {**unit.about, "until": 10**6}


def _wrong_begin(evidence: Evidence, session: Session) -> None:
    unit = _first(evidence, "fetch")
    gap = next(u for u in evidence.of("fetch") if u.told.get("names") and u.told["first"] > 1)
    gap.told = {**gap.told, "first": gap.told["first"] + 10**6}
    assert unit.done


def _two_leases(evidence: Evidence, session: Session) -> None:
    unit = next(u for u in evidence.of("claim") if u.done and u.told["jobs"])
    other = replace(unit, told={**unit.told}, began=unit.ended + 1, ended=unit.ended + 2)
    other.told["jobs"] = [{**job, "token": "another"} for job in unit.told["jobs"]]
    evidence.units.append(other)


def _two_polls(evidence: Evidence, session: Session) -> None:
    unit = next(u for u in evidence.of("poll") if u.told.get("token"))
    told = {**unit.told, "token": "another"}
    evidence.units.append(replace(unit, told=told, began=unit.ended + 1, ended=unit.ended + 2))


def _rolled_back(evidence: Evidence, session: Session) -> None:
    _first(evidence, "publish", topic="log").outcome = "undone"


def _rolled_back_job(evidence: Evidence, session: Session) -> None:
    _first(evidence, "enqueue", queue="jobs").outcome = "undone"


def _torn(evidence: Evidence, session: Session) -> None:
    unit = _first(evidence, "publish", topic="log")
    unit.outcome = "unknown"
    unit.about = {**unit.about, "names": [*unit.about["names"], "never published"]}


def _code(evidence: Evidence, session: Session) -> None:
    unit = _first(evidence, "claim")
    unit.outcome, unit.told = "undone", {"code": "XX000"}


def _nobody(evidence: Evidence, session: Session) -> None:
    session.publish(topic="log", payload={"name": "nobody's"})


def _twice(evidence: Evidence, session: Session) -> None:
    name = _first(evidence, "once").about["names"][0]
    session.publish(topic="once", payload={"name": name})


def _stuck(evidence: Evidence, session: Session) -> None:
    session.enqueue(queue="jobs", payload={"name": "left"})


def _stuck_lease(evidence: Evidence, session: Session) -> None:
    session.enqueue(queue="followers", payload={"name": "left"})
    assert session.claim_job(queue="followers", lease="1 year")


def _newer_before(evidence: Evidence, session: Session) -> None:
    """The first claim of a key begins after the last of its versions has been enqueued."""
    claims = [
        (unit, job["name"])
        for unit in evidence.of("claim", "end")
        if unit.done and unit.about.get("queue") == "replaced"
        for job in unit.told.get("jobs", [])
    ]
    for key in {name.rpartition("=")[0] for _, name in claims}:
        claim = next(unit for unit, name in claims if name.startswith(f"{key}="))
        later = [
            unit.ended
            for unit in evidence.of("replace")
            if unit.done and unit.began > claim.ended and unit.about["queue"] == "replaced"
            if any(name.startswith(f"{key}=") for name in unit.about["names"])
        ]
        if later:
            claim.began = claim.ended = later[0] + 1
            return
    raise AssertionError("no key had a second version")


def _lost_effect(evidence: Evidence, session: Session) -> None:
    unit = next(u for u in evidence.of("exact") if u.done and u.told["places"])
    [topic, [[partition, first, _], *_]] = unit.about["topic"], unit.told["places"]
    _run(
        session,
        f"delete from seen where (topic, consumer_group, partition, log_offset)"
        f" = ('{topic}', 'exact', {partition}, {first})",
    )


def _nothing_truncated(evidence: Evidence, session: Session) -> None:
    session.execute(
        "create or replace function"
        " pgq._truncate_segments(objects int8multirange, now_at timestamptz)"
        " returns setof pgq.cleanup_action language plpgsql as 'begin end'"
    )


def copy(evidence: Evidence, session: Session, change: Callable[[list[Any]], None]) -> None:
    """Copies as Spark makes them, but for a change in the first partition."""
    evidence.units.append(Unit("stream", {}, 0))
    for to in COPIES:
        for partition in range(3):
            rows = session.execute(
                "select payload from pgq.messages where topic = any(%s) and partition = %s"
                " order by topic, log_offset",
                [list(COPIED), partition],
            ).fetchall()
            payloads = [row[0] for row in rows]
            if partition == 0:
                change(payloads)
            session.publish_batch(topic=to, payloads=payloads, partition=partition)


def _copied(kind: str, change: Callable[[list[Any]], Any]) -> Planted:
    return Planted(kind, lambda evidence, session: copy(evidence, session, change))


def _one_of(queue: str) -> str:
    return f"(select job_id from done where queue = '{queue}' order by place limit 1)"


PLANTED = {
    "a message lost": _sql(
        "offsets", f"delete from pgq.message where (partition_id, log_offset) = ({LOG}, 3)"
    ),
    "a message stored twice": _sql("twice", _copy_payload(LOG, 3, 4)),
    "a message at the wrong place": _sql("place", _copy_payload(LOG, 3, 4)),
    "a commit overtaken": Planted("commit order", _late_commit),
    "a message of a rollback": Planted("undone", _rolled_back),
    "half a transaction": Planted("torn", _torn),
    "a message of nobody": Planted("unknown", _nobody),
    "a key that let a second one in": Planted("twice", _twice),
    "a bulk write twice": _sql("bulk write", _copy_payload(BULK, 2, 1)),
    "a group that skipped": _sql(
        "group",
        "delete from seen as s using (select partition from seen where topic = 'log'"
        " and log_offset = 1 order by place limit 1) as f"
        " where (s.topic, s.partition, s.log_offset) = ('log', f.partition, 1)",
    ),
    "a group out of order": _sql("order", "update seen set place = default where log_offset = 1"),
    "an effect lost": Planted("effect", _lost_effect),
    "a group that never got it": Planted("group", _never_got),
    "a position lost": Planted("position", _acknowledged_position),
    "a position that jumped": Planted("position", _wrong_begin),
    "a job lost": _sql("lost job", f"delete from pgq.job_archive where job_id = {_one_of('jobs')}"),
    "a job of a rollback": Planted("undone", _rolled_back_job),
    "a job ended twice": _sql(
        "ended twice",
        "insert into pgq.job_archive select * from pgq.job_archive"
        f" where job_id = {_one_of('jobs')}",
    ),
    "an end without its effect": _sql(
        "effect", f"delete from done where job_id = {_one_of('bulk-jobs')}"
    ),
    "a brief job lost": _sql("lost job", "delete from done where queue = 'brief-jobs'"),
    "two workers with one job": Planted("two leases", _two_leases),
    "two members with one partition": Planted("two leases", _two_polls),
    "a key overtaken": _sql(
        "overtaken", "update done set place = default where queue = 'ordered' and name like '%:0'"
    ),
    "a stranded job": Planted("stuck job", _stuck),
    "a lease without end": Planted("stuck job", _stuck_lease),
    "a follower that got nothing": _sql(
        "follower", f"delete from done where job_id = {_one_of('followers')}"
    ),
    "a tick twice": _sql(
        "tick",
        "insert into done (queue, job_id, name)"
        " select queue, -1, name from done where queue = 'ticks' limit 1",
    ),
    "a code that nobody knows": Planted("code", _code),
    "a key of no job": _sql(
        "wrong state", "insert into pgq.unique_job values (1, 'key', -1, true)"
    ),
    "an event in a segment of nobody": _sql(
        "wrong state",
        "insert into pgq.job_event (job_id, queue_id, ended_at, segment, attempt, event)"
        " select 1, 1, now(), leaf, 1, 'lost' from pgq.leaf where free limit 1",
    ),
    "a job that ended twice, as get_result has it": _sql(
        "wrong state",
        "insert into pgq.job_event (job_id, queue_id, ended_at, segment, attempt, event)"
        " select -1, q.queue_id, now(), q.segment, 1, 'finished'"
        " from (select * from pgq.queue limit 1) as q, generate_series(1, 2)",
    ),
    "more attempts of a job than are kept": _sql(
        "wrong state",
        "insert into pgq.job_event (job_id, queue_id, ended_at, segment, attempt, event)"
        " select -1, q.queue_id, now(), q.segment, n, 'failed'"
        " from (select * from pgq.queue limit 1) as q, generate_series(1, 40) as n",
    ),
    "a message of no topic": _sql(
        "orphan",
        "insert into pgq.message (partition_id, log_offset, published_at, segment)"
        " select 999999, 1, now(), segment from pgq.segment where state = 'open' limit 1",
    ),
    "a result lost": _sql("result", "delete from pgq.job_event where event = 'finished'"),
    "the result of another attempt": _sql(
        "result",
        "update pgq.job_event set result = jsonb_set(result, '{by}', '1') where result is not null",
    ),
    "a failed attempt that is not noted": _sql(
        "history", "delete from pgq.job_event where event = 'failed'"
    ),
    "a lost attempt that is not noted": _sql(
        "history", "delete from pgq.job_event where event = 'lost'"
    ),
    "an attempt of nobody": _sql(
        "history",
        "insert into pgq.job_event (job_id, queue_id, ended_at, segment, attempt, event)"
        " select j.job_id, q.queue_id, now(), q.segment, 9, 'lost' from pgq.queue as q"
        f" cross join {_one_of('jobs')} as j where q.queue = 'jobs'",
    ),
    "a cancelled job handed out": _sql(
        "act",
        "insert into attempt (queue, job_id, token, attempt, age)"
        " select 'swept', job_id, gen_random_uuid(), 1, 0 from act where call = 'cancel_jobs'",
    ),
    "a job that nobody was to cancel": _sql(
        "act",
        f"update pgq.job_archive set outcome = 'cancelled' where job_id = {_one_of('jobs')}",
    ),
    "a job that nobody was to redrive": _sql(
        "act",
        "insert into act (call, wanted, job_id, met)"
        " select 'redrive', 'redrive', job_id, 'left' from attempt where queue = 'swept'",
    ),
    "a redrive that did nothing": _sql(
        "act",
        "insert into act (call, wanted, job_id, met)"
        " select 'redrive', label, job_id, label from attempt where queue = 'swept'",
    ),
    "a job retried outside of the filter": _sql(
        "act", "update attempt set age = 1, label = 'left' where queue = 'swept'"
    ),
    "a letter that nobody was to purge": _sql(
        "act",
        "insert into attempt (queue, job_id, token, attempt, label, age)"
        " values ('swept', -1, gen_random_uuid(), 1, 'left', 1000)",
    ),
    "an older version after a newer one": Planted("version", _newer_before),
    "a newest version lost": _sql("version", "delete from done where queue = 'replaced'"),
    "a version in two jobs": _sql(
        "version",
        "insert into attempt (queue, job_id, token, attempt, name, age)"
        " select queue, -1, gen_random_uuid(), 1, name, 0 from attempt where queue = 'postponed'",
    ),
    "a message that Spark lost": _copied("copy", lambda payloads: payloads.pop()),
    "a message that Spark wrote twice": _copied("copy", lambda those: those.append(those[0])),
    "a message that Spark made up": _copied("copy", lambda those: those.append({"name": "new"})),
    "a copy out of order": _copied("copy order", list.reverse),
    "storage that is kept": Planted("storage", _nothing_truncated),
}
