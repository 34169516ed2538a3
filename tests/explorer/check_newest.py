"""What on_duplicate promises: the newest content of a key is always worked on."""

from __future__ import annotations

from explorer.check_log import number_of
from explorer.database import Link, Row
from explorer.history import Event, History
from explorer.known_jobs import FINISHED
from explorer.newest_calls import NEWEST

__all__ = ["check_newest"]


def check_newest(history: History, link: Link) -> None:
    """Replay the contents of each job, then work off what is left."""
    if not link.rows(f"select from pgq.list_queues() where queue = '{NEWEST}'"):
        return
    newest: dict[str, int] = {}
    content: dict[int, int] = {}
    done: set[int] = set()
    # calls of one transaction are in their order, and those that meet wait for the commit
    for event in history.committed():
        call = event.call.removesuffix("_newest")
        given = event.arguments.get("queue") == NEWEST
        if given and call in ("enqueue", "enqueue_batch"):
            _note(event, newest, content)
            continue
        for job_id in FINISHED[call](event) if call in FINISHED else ():
            done |= {content[job_id]} if job_id in content else set()
        if given and call in ("claim_job", "finish_and_claim"):
            for row in event.rows:
                _check_content(history, content, row, event.statement)
    done |= _dead(link)
    for _ in history.rounds(f"the drain of {NEWEST}"):
        rows = link.rows(
            "select c.*, pgq.ack(c.job_id, c.lease_token)"
            f" from pgq.claim_job('{NEWEST}', 1000) as c"
        )
        for row in rows:
            _check_content(history, content, row, "the drain")
            done.add(number_of(row) or 0)
        if not rows:
            break
    for key, number in newest.items():
        if number not in done:
            history.violate("newest lost", f"{number} is the newest of {key}, and was not done")


def _note(event: Event, newest: dict[str, int], content: dict[int, int]) -> None:
    arguments = event.arguments
    keys = arguments.get("unique_keys") or [arguments["unique_key"]]
    for key, number, row in zip(keys, event.numbers, event.rows, strict=True):
        newest[key] = number
        content[row["job_id"]] = number


def _check_content(history: History, content: dict[int, int], row: Row, told: str) -> None:
    number = number_of(row)
    if number != content.get(row["job_id"]):
        holds = content.get(row["job_id"])
        history.violate("old content", f"{told} gave {number} of {row['job_id']}, now {holds}")


def _dead(link: Link) -> set[int]:
    rows = link.rows(f"select job_id, payload, body from pgq.dead_letters where queue = '{NEWEST}'")
    return {number_of(row) or 0 for row in rows}
