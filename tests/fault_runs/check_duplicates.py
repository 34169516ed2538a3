"""What a fault run must show of a queue that replaces duplicates: the newest is worked on."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

from fault_runs.evidence import Evidence

__all__ = ["check_duplicates"]


def check_duplicates(evidence: Evidence) -> None:
    """Hold the versions that were claimed and finished against those that were enqueued."""
    for queue in ("replaced", "postponed"):
        _check_queue(evidence, queue)


def _check_queue(evidence: Evidence, queue: str) -> None:
    # of each key, since when which version was there; both grow
    times: dict[str, list[int]] = defaultdict(list)
    versions: dict[str, list[int]] = defaultdict(list)
    stored: set[str] = set()
    for unit in evidence.of("replace"):
        if unit.about["queue"] != queue:
            continue
        # of a batch, the last one of a key
        for key, version in dict(map(_split, unit.about["names"])).items():
            if not unit.undone:
                stored.add(f"{key}={version}")
            if unit.done:
                times[key].append(unit.ended)
                versions[key].append(version)
    finished: dict[str, int] = defaultdict(lambda: -1)
    for (name,) in evidence.ask("select name from done where queue = %s", [queue]):
        key, version = _split(name)
        finished[key] = max(finished[key], version)
    for key, known in versions.items():
        if finished[key] < known[-1]:
            evidence.violate("version", f"{queue}: {key}={known[-1]} was never worked on")
    begins = {
        (job["job_id"], job["token"]): unit.began
        for unit in evidence.of("claim", "end")
        for job in unit.told.get("jobs", [])
    }
    # a job that has been claimed once keeps its content until it has come back
    newest: dict[str, int] = defaultdict(lambda: -1)
    owners: dict[str, int] = {}
    for job_id, token, name in evidence.ask(
        "select job_id, token::text, name from attempt where queue = %s order by place", [queue]
    ):
        key, version = _split(name)
        if name not in stored:
            evidence.violate("version", f"{queue}: {name} was rolled back, or never the last one")
        if owners.setdefault(name, job_id) != job_id:
            evidence.violate("version", f"{queue}: {name} is two jobs")
        before = bisect_left(times[key], begins.get((job_id, token), 0))
        # one that has been claimed no longer ends the older ones
        if before and versions[key][before - 1] > version >= newest[key]:
            evidence.violate(
                "version", f"{queue}: {name} was claimed after {versions[key][before - 1]} came"
            )
        newest[key] = max(newest[key], version)


def _split(name: str) -> tuple[str, int]:
    key, _, version = name.rpartition("=")
    return key, int(version)
