"""What queues promise: each committed job is done once, by one worker at a time."""

from __future__ import annotations

from explorer.check_archive import check_archive
from explorer.check_groups import LONG_LEASE, SLACK
from explorer.check_handed_out import check_handed_out
from explorer.check_key_limits import check_key_limits
from explorer.check_letters import check_letters
from explorer.check_log import number_of
from explorer.check_order import check_order, check_round
from explorer.check_readers import check_peeks
from explorer.check_room import check_room, probe_room
from explorer.database import Link, Row
from explorer.follow_calls import FOLLOWERS, IN_ORDER
from explorer.history import History
from explorer.known_jobs import Claimed, Job, Queue, note_claims, note_jobs, same_id
from explorer.newest_calls import NEWEST
from explorer.script import written
from explorer.tick_calls import TICKS

__all__ = ["check_queues"]

BEHIND_ANOTHER = """
select j.job_id, m.payload, m.body
from pgq.job as j
left join pgq.message as m
    on m.segment = j.segment
    and m.partition_id = j.partition_id
    and m.log_offset = j.log_offset
where j.due_at is not null or exists (
    select from pgq.job as k
    where (k.queue_id, k.ordered_key) = (j.queue_id, j.ordered_key) and k.job_id < j.job_id
)
"""

# Letters that are not redriven, since another job has their unique key. Where one stops its key,
# that may be one that waits behind it; and others may be waiting for that one.
STOPPED = """
with held as (
    select d.job_id, d.queue_id, d.ordered_key, d.stops_key
    from pgq.dead_job as d
    where exists (
        select from pgq.unique_job as u
        where (u.queue_id, u.unique_key) = (d.queue_id, d.unique_key) and u.job_id <> d.job_id
    )
)
select h.job_id from held as h
union all
select j.job_id
from pgq.job as j
inner join held as h on (h.queue_id, h.ordered_key) = (j.queue_id, j.ordered_key) and h.stops_key
"""


def check_queues(history: History, link: Link, clock: int) -> None:
    """Replay what happened to every job, then work off what is left."""
    drops = {e.arguments["queue"]: e.order for e in history.committed("drop_queue")}
    for row in link.rows(
        "select queue, archive, ordered from pgq.list_queues()"
        f" where queue not in ('{TICKS}', '{FOLLOWERS}', '{IN_ORDER}', '{NEWEST}')"
    ):
        cut = drops.get(row["queue"])
        queue = Queue(row["queue"], history, cut, clock, row["ordered"])
        note_jobs(queue)
        note_claims(queue)
        _check_claims(queue)
        if queue.ordered:
            check_order(queue)
        check_room(queue)
        check_key_limits(queue)
        check_handed_out(queue)
        check_archive(queue, row["archive"], link)
        check_letters(queue)
        check_peeks(queue)
        _drain(queue, link)


def _check_claims(queue: Queue) -> None:
    history = queue.history
    given_back = {
        (event.arguments["job_id"], event.arguments["lease_token"])
        for event in history.committed("nack", "reject_job")
        if event.rows[0][event.call]
    } | {
        (row["job_id"], event.arguments["lease_token"])
        for event in history.committed("nack_batch")
        for row in event.rows
    }
    released = {
        (event.arguments["job_id"], event.arguments["lease_token"])
        for event in history.committed("release_job")
        if event.rows[0]["release_job"]
    } | {
        (row["job_id"], event.arguments["lease_token"])
        for event in history.committed("release_job_batch")
        for row in event.rows
    }
    begun = {
        (job_id, event.arguments["lease_token"])
        for event in history.committed("ack_batch", "extend_lease_batch")
        for job_id in event.arguments.get("begun", ())
        if {"job_id": job_id} in event.rows
    } | {
        (event.arguments["job_id"], event.arguments["lease_token"])
        for event in history.committed("extend_lease")
        if event.rows[0]["extend_lease"]
    }
    redriven = any(e.rows[0]["taken"] for e in queue.since_cut("redrive"))
    extended: dict[tuple[int, str], int] = {}
    for event in history.committed("extend_lease"):
        if event.rows[0]["extend_lease"]:
            least, _ = history.clock(event.started, event.ended)
            until = least + LONG_LEASE[event.arguments["lease"]] - SLACK
            key = (event.arguments["job_id"], event.arguments["lease_token"])
            extended[key] = max(until, extended.get(key, until))
    for event in history.committed("extend_lease_batch"):
        least, _ = history.clock(event.started, event.ended)
        until = least + LONG_LEASE[event.arguments["lease"]] - SLACK
        for row in event.rows:
            key = (row["job_id"], event.arguments["lease_token"])
            extended[key] = max(until, extended.get(key, until))
    for job in queue.jobs.values():
        for claimed in job.claims:
            held = (job.job_id or 0, claimed.token)
            claimed.counts |= held in given_back | begun
            claimed.counts &= held not in released
        if len(job.finished) > 1:
            told = "; ".join(event.statement for event in job.finished)
            history.violate("job twice", f"job {job.job_id} was finished twice: {told}")
        for before, after in zip(job.claims, job.claims[1:]):
            told = f"job {job.job_id}: {before.event.statement}, then {after.event.statement}"
            held = (job.job_id or 0, before.token)
            least, _ = history.clock(before.event.started, before.event.ended)
            until = least + LONG_LEASE[before.event.arguments["lease"]] - SLACK
            until = max(until, extended.get(held, until))
            _, most = history.clock(after.event.started, after.event.ended)
            # It may have died when the lease was over, and come again before the clock went back.
            _, seen = history.clock(before.event.ended, after.event.started)
            died = redriven and seen >= until
            if most < until and not died and held not in given_back | released:
                history.violate("two leases", told)
            if not (_follows(before, after.attempt) or redriven or _tied(before, after)):
                history.violate("attempts", f"{told}: attempt {after.attempt} is the wrong one")
        for claimed in job.claims:
            if any(e.order[:2] < claimed.event.order[:2] for e in job.finished):
                history.violate(
                    "job twice",
                    f"job {job.job_id} was given by {claimed.event.statement} after it"
                    " had been finished",
                )


def _follows(before: Claimed, attempt: int) -> bool:
    """Whether the next claim of the job has this attempt."""
    return attempt > before.attempt if before.counts else attempt == before.attempt


def _tied(before: Claimed, after: Claimed) -> bool:
    return before.event.order[:2] == after.event.order[:2]


def _drain(queue: Queue, link: Link) -> None:
    name = written(queue.name)
    history = queue.history
    violate = history.violate
    given: dict[int, int] = {}
    if history.went_back():
        _check_stranded(queue, link, given)
        link.rows("select * from pgq.cleanup()")
    probe_room(queue, link)
    _work_off(queue, link, given)
    stopped = {row["job_id"] for row in link.rows(STOPPED)}
    for number, times in given.items():
        known = queue.jobs.get(number)
        if known is None:
            violate("ghost", f"{queue.name} gave job {number}, which was never committed to it")
        elif times > 1 or known.finished:
            violate("job twice", f"{queue.name}: job {known.job_id} ({number}) was given again")
    for job in queue.jobs.values():
        missing = job.number not in given and not job.finished and job.job_id not in stopped
        if missing and not queue.may_be_gone(job):
            violate("job lost", f"{queue.name}: job {job.job_id} ({job.number}) is never given")
    left = link.rows(
        "select j.job_id, j.visible_at from pgq.job as j where (j.expires_at is null"
        " or j.expires_at > pgq._clock()) and j.queue_id ="
        f" (select q.queue_id from pgq.queue as q where q.queue = {name})"
    )
    for row in left:
        if row["job_id"] not in stopped:
            violate("job stranded", f"{queue.name}: {row}")


def _check_stranded(queue: Queue, link: Link, given: dict[int, int]) -> None:
    """Work off what is due some time after the clock was set back.

    Jobs from before may stand below a floor, until cleanup lowers it. Later ones may not, unless
    the clock comes to where it was before any claim has noticed that it had been set back.
    """
    history = queue.history
    _, highest = history.clock(0, history.tick)
    _, last = history.clock(history.tick, history.tick)
    soon = last + queue.drained_at - highest
    link.set_clock(soon)
    _work_off(queue, link, given)
    link.set_clock(queue.drained_at)
    # which of them is not due yet is the first of its key, or has its place
    behind_another = {number_of(row) for row in link.rows(BEHIND_ANOTHER)}
    for job in queue.jobs.values():
        behind, _ = history.clock(job.event.started, job.event.ended)
        _, before = history.clock(0, job.event.started)
        noticed = soon < highest or behind >= before
        later = job.event.transaction.started > history.went_back() and noticed
        missing = job.number not in given and not job.finished
        missing = missing and job.number not in behind_another
        if later and missing and not queue.may_be_gone(job):
            told = f"{queue.name}: job {job.job_id} until cleanup"
            history.violate("job stranded", told)


def _work_off(queue: Queue, link: Link, given: dict[int, int]) -> None:
    """Claim and finish all jobs, dead ones after a redrive, until nothing is given any more."""
    name = written(queue.name)
    violate = queue.history.violate
    # what is removed may have held a place of its key, or its turn, as the next claim finds
    settings = queue.since_cut("create_queue", "alter_queue")
    limited = any(event.rows[0]["max_leased_per_key"] for event in settings)
    enough = 2 if limited or queue.ordered or queue.history.went_back() else 1
    idle = 0
    redriven = any(e.rows[0]["taken"] for e in queue.since_cut("redrive"))
    for _ in queue.history.rounds(f"the drain of {queue.name}"):
        answer = link.ask(
            f"select c.*, pgq.ack(c.job_id, c.lease_token) from pgq.claim_job({name}, 1000) as c"
        )
        revived = link.ask(f"select * from pgq.redrive({name}, all_jobs => true)")
        if answer.code is not None or revived.code is not None:
            violate("raw error", f"draining {queue.name}: {answer} {revived}")
            return
        if queue.ordered:
            check_round(queue, answer.rows)
        for row in answer.rows:
            number = number_of(row)
            if number is None:
                violate("payload lost", f"draining {queue.name}: {row}")
                given[row["job_id"]] = 1
                continue
            given[number] = given.get(number, 0) + 1
            if number in queue.jobs:
                same_id(queue, queue.jobs[number], row, "the drain")
                if not redriven:
                    _check_last(queue, queue.jobs[number], row)
            if not row["ack"]:
                violate("job twice", f"draining {queue.name}: ack refused for {row}")
        redriven = redriven or bool(revived.rows[0]["taken"])
        idle = 0 if answer.rows or revived.rows[0]["taken"] else idle + 1
        if idle == enough:
            break


def _check_last(queue: Queue, job: Job, row: Row) -> None:
    """The drain has the attempt that comes after the last claim."""
    if not job.claims or (len(job.claims) > 1 and _tied(*job.claims[-2:])):
        return
    last = job.claims[-1]
    if not _follows(last, row["attempt"]):
        told = f"job {job.job_id} of {last.event.statement} was drained as {row}"
        queue.history.violate("attempts", told)
