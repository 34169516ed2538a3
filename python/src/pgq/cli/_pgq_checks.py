"""Doctor's checks of pgq itself: what is installed, granted, cleaned, leased and left over."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from pgq import _other
from pgq._sampling import queue_figures
from pgq._signatures import SIGNATURES
from pgq.cli._findings import ERROR, NOTE, WARNING, Examination
from pgq.cli._house import version_of
from pgq.cli._output import instant, span
from pgq.worker._grants import NEEDED

__all__ = ["CHECKS", "installed"]

LONG_LEASE = timedelta(hours=1)
SKEW = timedelta(seconds=5)
LATE = timedelta(minutes=10)
"""So much later than due cleanup may be: it is to be called every minute."""

_ABOUT = {None: "", "≈": "about ", "≥": "at least "}
_GROUPS = {
    "publish": ("publish", "publish_batch"),
    "consume": ("consume", "fetch_range", "list_offsets"),
    "consume by lease": ("poll", "extend_poll", "release_poll", "nack_offsets", "commit_offset"),
    "enqueue": ("enqueue", "enqueue_batch"),
    "work on jobs": NEEDED,
    "clean up and run schedules": ("cleanup", "run_schedules"),
    "watch": ("list_topics", "list_groups", "list_queues"),
}
_SHARED = {"list_topics", "list_queues", "get_job", "heartbeat"}
"""Called by others too: these alone do not show that a role works on jobs, or watches."""
_CALL_CLEANUP = (
    "call it every minute: pgq work app:handlers --housekeeping, pgq housekeeping, or pgq cleanup "
    "from cron"
)


def installed(look: Examination) -> bool:
    """Look for what is installed; false where the other checks can find nothing."""
    look.checked.append("installation")
    if _other.is_installed():
        look.note("installation", WARNING, _other.WHAT, _other.WHY, _other.FIX)
    if not look.server["has_schema"]:
        look.note(
            "installation", ERROR, "pgq is not installed in this database", "nothing works here",
            "pgq migrate, with --database for another database",
        )  # fmt: skip
        if not look.server["may_create"]:
            look.note(
                "installation", ERROR,
                f"role {look.server['role']} may not create a schema in this database",
                "pgq migrate needs that, and no more",
                f'as the owner of the database or a superuser: grant create on database '
                f'"{look.server["database"]}" to "{look.server["role"]}";',
            )  # fmt: skip
        return False
    if not look.server["is_ours"]:
        look.note(
            "installation", ERROR,
            f"the schema pgq of role {look.server['owner']} was not made by this package",
            "Skytools' PgQ, among others, has a schema of this name; the two cannot live together",
            "use another database, or remove that one first, if nobody needs it",
        )  # fmt: skip
        return False
    if not look.ask("schema", look.server["role"])[0]["may"]:
        look.note(
            "grants", ERROR, f"role {look.server['role']} has no right to the schema pgq",
            "it can call nothing of it",
            f'grant usage on schema pgq to "{look.server["role"]}";',
        )  # fmt: skip
        return False
    functions = {row["name"]: row for row in look.ask("functions", look.server["role"])}
    look.server["version"] = version_of(look.connection)
    broken = [
        name
        for name, signature in SIGNATURES.items()
        if name not in functions or list(functions[name]["arguments"]) != list(signature.arguments)
    ]
    if broken:
        look.note(
            "installation", ERROR,
            f"{len(broken)} functions are missing or have other arguments: {_some(broken)}",
            "half of an installation, or somebody changed it: calls fail",
            "compare with a fresh installation in another database; drop schema pgq cascade and "
            "install again loses all topics and queues",
        )  # fmt: skip
    return not broken


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def grants(look: Examination) -> None:
    """Whether the role may call what belongs together."""
    role = look.role or look.server["role"]
    functions = {row["name"]: row for row in look.ask("functions", role)}
    if not look.ask("schema", role)[0]["may"]:
        look.note(
            "grants", ERROR, f"role {role} has no right to the schema pgq",
            "it can call nothing of it", f'grant usage on schema pgq to "{role}";',
        )  # fmt: skip
        return
    none = []
    for purpose, all_names in _GROUPS.items():
        names = [name for name in all_names if name in functions]
        lacking = [name for name in names if not functions[name]["may"]]
        if {*names} - _SHARED <= {*lacking}:
            none.append(purpose)
        elif lacking:
            signatures = ", ".join(functions[name]["signature"] for name in lacking)
            look.note(
                "grants", WARNING, f"role {role} may {purpose} by half: it lacks {_some(lacking)}",
                "clients call these together, so some calls fail (42501)",
                f'grant execute on function {signatures} to "{role}";',
            )  # fmt: skip
    if not any(row["may"] for row in functions.values()):
        look.note(
            "grants", ERROR, f"role {role} may call none of pgq's functions",
            "nobody may, until the owner grants it",
            f'grant execute on all functions in schema pgq to "{role}"; -- or those that it needs',
        )  # fmt: skip
    elif none:
        look.note(
            "grants", NOTE, f"role {role} may not {_or(none)}",
            "that is right if it does not need to",
            "\n".join(
                f"grant execute on function {', '.join(f'pgq.{name}' for name in names)}"
                f' to "{role}"; -- to {purpose}'
                for purpose, all_names in _GROUPS.items()
                if purpose in none and (names := [one for one in all_names if one in functions])
            ),
        )  # fmt: skip


def _or(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def access(look: Examination) -> None:
    """Rights that go past grant_access, and grants that wait for the next role of a name."""
    for row in look.ask("table grants"):
        names = ", ".join(f"pgq.{name}" for name in row["names"])
        role = "public" if row["role"] == "public" else f'"{row["role"]}"'
        look.note(
            "access", WARNING,
            f"role {row['role']} has rights on tables of pgq: {_some(row['names'])}",
            "it reads or changes them whatever grant_access says; no function or view needs that",
            f"revoke all on {names} from {role}; -- and look for default privileges: \\ddp in psql",
        )  # fmt: skip
    known = {"public", *(row["role"] for row in look.ask("roles"))}
    grants = [one for one in look.client.admin.list_access() if one.role not in known]
    for role in dict.fromkeys(one.role for one in grants):
        targets = dict.fromkeys(
            ("topic", one.topic) if one.topic is not None else ("queue", str(one.queue))
            for one in grants
            if one.role == role
        )
        look.note(
            "access", WARNING,
            f"role {role} is not there any more, and has access to "
            + _some([f"{kind} {name}" for kind, name in targets]),
            "grants are by name: the next role of this name has them",
            " ".join(
                f"select pgq.revoke_access({_quoted(role)}, {kind} => {_quoted(name)});"
                for kind, name in targets
            ),
        )  # fmt: skip


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def cleaning(look: Examination) -> None:
    """Whether somebody calls cleanup, and what it fails for."""
    for failure in look.client.monitor.list_cleanup_failures():
        of = "" if failure.target is None else f" of {failure.target}"
        look.note(
            "cleanup", ERROR, f"cleanup fails for {failure.part}{of}: {failure.error_code}",
            failure.error or f"its message is shown to those who administer it, or as role"
            f" {look.server['owner']}",
            "remove the cause, a damaged row or a trigger of yours; cleanup tries again by itself",
            failure.failed_since,
        )  # fmt: skip
    if not look.ask("reads")[0]["may"]:
        look.unseen(
            "cleanup", "when cleanup last did what was due",
            f"run pgq doctor as role {look.server['owner']}",
        )  # fmt: skip
        return
    now = look.ask("clock")[0]["moment"]
    for row in look.ask("overdue", LATE):
        late = now - row["due_at"]
        removes = row["task"] in ("segments to empty",)
        look.note(
            "retention" if removes else "cleanup",
            ERROR if late > timedelta(days=1) else WARNING,
            f"{row['things']} {row['task']}, due since {instant(row['due_at'])}",
            "nobody calls cleanup, it fails, or what is held open hinders it: the disk fills up",
            _CALL_CLEANUP, row["due_at"],
        )  # fmt: skip


def schedules(look: Examination) -> None:
    """Whether somebody runs schedules."""
    now = look.ask("clock")[0]["moment"]
    for row in look.client.schedules.list_schedules():
        if not row.paused and row.next_at < now - LATE:
            look.note(
                "schedules", WARNING,
                f"schedule {row.schedule} was due at {instant(row.next_at)}, and nobody wrote it",
                "its jobs or messages do not come",
                "pgq work app:handlers --housekeeping, or pgq housekeeping",
                row.next_at, schedule=row.schedule,
            )  # fmt: skip
        if row.last_error is not None:
            look.note(
                "schedules", WARNING, f"schedule {row.schedule} failed: {row.last_error}",
                "this tick was not written", f"pgq schedules show {row.schedule}",
                schedule=row.schedule,
            )  # fmt: skip


def dependents(look: Examination) -> None:
    """What goes on in the name of a role that is gone, or has lost its access by a membership."""
    if not look.ask("may see dependents")[0]["may"]:
        look.unseen(
            "dependents", "what goes on in the name of roles without access",
            f"run pgq doctor as role {look.server['owner']}",
        )  # fmt: skip
        return
    for row in look.ask("dependents"):
        name = row["name"]
        what, fix = {
            "subscription": (f"subscription {name}", f"pgq subscriptions drop {name}"),
            "schedule": (
                f"schedule {name}",
                f"pgq schedules pause {name}, or name its target again with pgq.alter_schedule",
            ),
            "group": (
                f"the dead-letter topic of group {row['consumer_group']} of topic {name}",
                "set it again with pgq.alter_group, or lift max_attempts",
            ),
        }[row["kind"]]
        about = {"topic": name, "group": row["consumer_group"]}
        about = about if row["kind"] == "group" else {row["kind"]: name}
        state = "is not there any more" if row["gone"] else "has not the access for it any more"
        look.note(
            "dependents", WARNING, f"{what} was set up by role {row['made_by']}, which {state}",
            "what it needs was revoked by a membership, or its role was dropped; it goes on", fix,
            **about,
        )  # fmt: skip


def queues(look: Examination) -> None:
    """Leases that nobody ends, jobs that nobody takes, dead letters that grow."""
    now = look.ask("clock")[0]["moment"]
    rows, estimated = queue_figures(look.client)
    for stats in rows:
        name = stats.queue
        for job in look.client.jobs.peek_jobs(name, state="leased") if stats.leased else []:
            if job.leased_until is not None and job.leased_until > now + LONG_LEASE:
                look.note(
                    "leases", WARNING,
                    f"job {job.job_id} of queue {name} is leased until {instant(job.leased_until)}",
                    "if its worker is gone, nobody gets it before",
                    f"is its worker alive (pgq workers)? If not: pgq cancel {job.job_id}, and "
                    "enqueue it again",
                    job.leased_until, queue=name, job=str(job.job_id),
                )  # fmt: skip
        stranded = [
            job
            for job in (look.client.jobs.peek_jobs(name, state="ready") if stats.ready else [])
            if job.attempt > 0 and job.due_at is not None and job.due_at < now - look.older_than
        ]
        if stranded and not stats.paused:
            ids = _some([str(job.job_id) for job in stranded])
            look.note(
                "leases", WARNING,
                f"{len(stranded)} jobs of queue {name} had a worker, and none takes them up: {ids}",
                "their leases ran out, or they are to be tried again; no worker claims them",
                "start a worker (pgq work), or look why those that run do not claim",
                min(job.due_at for job in stranded if job.due_at is not None), queue=name,
            )  # fmt: skip
        if stats.dead:
            recent = look.client.jobs.fetch_dead_letters(
                name, max_jobs=1000, after_died_at=now - timedelta(hours=1), after_job_id=0
            )
            look.note(
                "dead letters", WARNING if recent else NOTE,
                f"queue {name} has {_ABOUT[estimated.get(name)]}{stats.dead:,} "
                "dead letters"
                + (f", {len(recent):,} of the last hour" if recent else ""),
                "these jobs were given up; nobody does them",
                f"pgq peek {name} --state dead; when the cause is gone: pgq redrive {name} --all",
                queue=name,
            )  # fmt: skip


def groups(look: Examination) -> None:
    """Groups that are so far behind that retention may overtake them, and long leases."""
    now = look.ask("clock")[0]["moment"]
    kept = {topic.topic: topic.retention for topic in look.client.admin.list_topics()}
    for row in look.client.monitor.group_lag():
        who = f"group {row.consumer_group} of topic {row.topic}, partition {row.partition}"
        about = {"topic": row.topic, "group": row.consumer_group}
        retention = kept.get(row.topic)
        if row.oldest_published_at is not None and retention is not None:
            age = now - row.oldest_published_at
            if age > retention / 2:
                look.note(
                    "lag", ERROR if age > retention * 0.9 else WARNING,
                    f"{who}, has not read what was published {span(age)} ago",
                    f"the retention is {span(retention)}: then messages go unread",
                    f"start its consumers, or: pgq topics alter {row.topic} --retention …",
                    row.oldest_published_at, **about,
                )  # fmt: skip
        if row.leased_until is not None and row.leased_until > now + LONG_LEASE:
            look.note(
                "leases", WARNING, f"{who}, is leased until {instant(row.leased_until)}",
                "if its member is gone, nobody reads this partition before",
                f"pgq seek {row.topic} {row.consumer_group} --partition {row.partition} --offset "
                f"{row.committed_offset + 1}",
                row.leased_until, **about,
            )  # fmt: skip


def bloat(look: Examination) -> None:
    """Tables with many dead rows."""
    for row in look.ask("tables"):
        if row["dead"] > 10_000 and row["dead"] > 5 * row["live"]:
            last = "never" if row["vacuumed"] is None else instant(row["vacuumed"])
            look.note(
                "bloat", WARNING,
                f"table pgq.{row['name']} has {row['dead']:,} dead rows and {row['live']:,} live "
                f"ones; last vacuumed: {last}",
                "claims and reads walk over dead rows; while a snapshot is held they cannot go",
                f"vacuum pgq.{row['name']}; -- and look at the sessions above, and at autovacuum",
            )  # fmt: skip


def clock(look: Examination) -> None:
    """Whether the clocks of this machine and of the database agree, and what a wrong one left."""
    before = datetime.now(timezone.utc)
    moment = look.ask("clock")[0]["moment"]
    after = datetime.now(timezone.utc)
    off = max(moment - after, before - moment)
    if off > SKEW:
        ahead = "ahead of" if moment > after else "behind"
        look.note(
            "clock", WARNING,
            f"the clock of the database is {span(off)} {ahead} that of this machine",
            "leases and delays count by the database; what clients compute from them is wrong",
            "let both machines get their time by NTP",
        )  # fmt: skip
    if not look.ask("may see what is ahead")[0]["may"]:
        look.unseen(
            "clock", "what was written while the clock was ahead",
            f"run pgq doctor as role {look.server['owner']}",
        )  # fmt: skip
        return
    for row in look.ask("ahead"):
        leased = row["kind"] == "job leases"
        look.note(
            "clock", WARNING,
            f"{row['things']:,} {row['kind']} "
            + ("end in more than 12 hours" if leased else "were written by a clock that was ahead"),
            "until then nobody gets these jobs; wrong, unless a worker asked for such a lease"
            if leased
            else "they wait until the clock is there again, or look alive until then",
            "when the clock is right: select * from pgq.repair_clock();"
            + (" -- with longest_lease => …, if leases are that long on purpose" if leased else ""),
        )  # fmt: skip


CHECKS = (
    ("grants", grants),
    ("access", access),
    ("cleanup", cleaning),
    ("schedules", schedules),
    ("dependents", dependents),
    ("queues", queues),
    ("groups", groups),
    ("bloat", bloat),
    ("clock", clock),
)
