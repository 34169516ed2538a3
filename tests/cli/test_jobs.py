"""Jobs on the command line: listed, shown, and changed one by one or by a filter."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from pgq import Client
from pgq._sync._jobs import Jobs
from support.clock import Clock
from support.command import Done, Run

HOUR = timedelta(hours=1)


def test_jobs(pgq: Run, client: Client) -> None:
    client.admin.create_queue("mail", max_attempts=1)
    numbers = [row.job_id for row in client.enqueue_batch("mail", list(range(5)))]
    for job in client.claim_job("mail", max_jobs=3):
        client.nack(job.job_id, job.lease_token)
    assert pgq("job", str(numbers[0]), "--json").json["state"] == "dead"
    assert pgq("redrive", "mail", "--job", str(numbers[0])).out == (
        'redriven 1 job of queue "mail"\n'
    )
    for verb, done in (("redrive", "redriven"), ("purge", "removed")):
        told = pgq(verb, "mail", "--job", "99999", "--yes", "--json")
        assert (told.status, told.json[done]) == (1, 0)
        assert told.err == 'pgq: dead letter 99999 is not in queue "mail"\n'
    assert "say one of --job, --all, and a filter" in pgq("redrive", "mail").err
    assert pgq("redrive", "mail", "--all", "--limit", "1", "--yes", "--json").json["redriven"] == 1
    assert pgq("purge", "mail", "--dead", "--yes", "--json").json["removed"] == 1
    assert pgq("purge", "mail", "--dead", "--all", "--yes").status == 2
    gone = pgq("purge", "mail", "--before", "now", "--yes", "--json")
    assert gone.json["removed"] == 0
    done = pgq("cancel", str(numbers[3]), "999999", "--json")
    assert done.status == 1
    assert [row["cancelled"] for row in done.json_lines] == [True, False]
    assert pgq("cancel", str(numbers[4])).status == 0
    assert pgq("job", "999999").status == 1
    [job] = client.claim_job("mail")
    client.nack(job.job_id, job.lease_token)
    assert pgq("purge", "mail", "--job", str(job.job_id), "--yes", "--json").json["removed"] == 1


def test_jobs_that_wait(pgq: Run, client: Client) -> None:
    """They are due with `retry`; `job` shows how often one was snoozed, and its progress."""
    client.admin.create_queue("mail")
    hour = timedelta(hours=1)
    snoozed, later, ready = (
        client.enqueue("mail", 1, delay=delay).job_id for delay in (None, hour, None)
    )
    [job] = client.claim_job("mail")
    client.set_progress(snoozed, job.lease_token, {"done": 2**64})
    client.release_job(snoozed, job.lease_token, delay=hour)
    found = pgq("job", str(snoozed), "--json").json
    assert (found["state"], found["snoozes"]) == ("delayed", 1)
    assert found["progress"] == {"done": 2**64}
    shown = re.sub(r" +", " ", pgq("job", str(snoozed)).out)
    assert "snoozes 1\n" in shown
    assert f'progress {{"done": {2**64}}}\n' in shown

    assert pgq("retry", str(snoozed)) == Done(0, f"job {snoozed} due now\n", "")
    again = pgq("retry", str(later), str(ready), "999999", "--json")
    assert again.status == 1
    assert again.json_lines == [
        {"job_id": later, "due": True},
        {"job_id": ready, "due": False},
        {"job_id": 999999, "due": False},
    ]
    assert pgq("retry", str(ready)).status == 1
    assert {job.state for job in client.jobs.peek_jobs("mail")} == {"ready"}


@pytest.mark.parametrize("verb", ["cancel", "retry"])
def test_one_of_several_fails(pgq: Run, client: Client, verb: str) -> None:
    """Those before it were changed, and that is said."""
    client.admin.create_queue("mail")
    first, second = (client.enqueue("mail", 1, delay=HOUR).job_id for _ in range(2))
    done = pgq(verb, str(first), str(first), str(2**70), str(second), "--json")
    assert [row["job_id"] for row in done.json_lines] == [first]
    assert done.json_lines[0]["cancelled" if verb == "cancel" else "due"] is True
    assert (done.status, done.err) == (1, "pgq: bigint out of range\n")


@pytest.fixture
def mail(client: Client) -> Client:
    """A queue with three dead letters, three jobs that failed once, and three new ones."""
    client.admin.create_queue(
        "mail", keep_results=True, max_attempts=2, backoff=HOUR, backoff_jitter=0
    )
    labels = ["news", "bill", "bill"]
    client.enqueue_batch("mail", [1, 2, 3], labels=labels, max_attempts=1)
    client.enqueue_batch("mail", [4, 5, 6], labels=labels)
    errors = ["timeout", "no such place", "timeout"] * 2
    for job, error in zip(client.claim_job("mail", max_jobs=6), errors, strict=True):
        client.nack(job.job_id, job.lease_token, error=f"{error} at {job.payload}", worker="w-1")
    client.enqueue_batch("mail", [7, 8, 9], labels=labels)
    return client


def payloads(client: Client) -> list[Any]:
    """Of the jobs that are not dead."""
    return sorted(job.payload for job in client.jobs.peek_jobs("mail"))


def dead(client: Client) -> list[Any]:
    return sorted(letter.payload for letter in client.jobs.dead_letters("mail"))


def test_a_list_of_jobs(pgq: Run, mail: Client) -> None:
    rows = pgq("jobs", "mail", "--json").json
    assert [row["payload"] for row in rows] == [7, 8, 9, 4, 5, 6]
    assert {row["state"] for row in rows} == {"ready", "delayed"}
    delayed = pgq("jobs", "mail", "--state", "delayed", "--label", "bill", "--json").json
    assert [row["payload"] for row in delayed] == [5, 6]
    assert len(pgq("jobs", "mail", "--label", "bill", "--limit", "3", "--json").json) == 3
    shown = pgq("jobs", "mail", "--state", "delayed").lines
    assert len(shown) == 5
    assert "no such place at 5" in shown[3]
    assert pgq("jobs", "mail", "--label", "none").out == "no jobs\n"


def test_ids_are_shown_as_commands_take_them(pgq: Run, client: Client) -> None:
    client.admin.create_queue("mail")
    client.connection.execute("alter sequence pgq.job_id restart 1234567")
    job_id = str(client.enqueue("mail", 1, delay=HOUR).job_id)
    assert job_id == "1234567"
    assert job_id in pgq("jobs", "mail").lines[2].split()
    assert job_id in pgq("peek", "mail").out.split()
    assert job_id in pgq("job", job_id).lines[0].split()


def test_a_list_of_dead_letters(pgq: Run, mail: Client) -> None:
    rows = pgq("jobs", "mail", "--state", "dead", "--json").json
    assert [row["payload"] for row in rows] == [1, 2, 3]
    assert len(pgq("jobs", "mail", "--state", "dead", "-n", "2", "--json").json) == 2
    found = pgq("jobs", "mail", "--state", "dead", "--label", "bill", "-n", "1", "--json").json
    assert [row["payload"] for row in found] == [2]
    assert "timeout at 3" in pgq("jobs", "mail", "--state", "dead").out


def test_states_that_are_not_listed(pgq: Run, mail: Client) -> None:
    assert "unknown queue" in pgq("jobs", "nowhere").err
    assert pgq("jobs", "mail", "--state", "odd").status == 2


def test_a_job_with_its_attempts(pgq: Run, mail: Client) -> None:
    [letter] = [one for one in mail.jobs.dead_letters("mail") if one.payload == 2]
    found = pgq("job", str(letter.job_id), "--json").json
    assert (found["state"], found["payload"]) == ("dead", 2)
    [attempt] = found["history"]
    assert (attempt["attempt"], attempt["outcome"], attempt["worker"]) == (1, "failed", "w-1")
    shown = pgq("job", str(letter.job_id)).out
    assert re.search(r"^state +dead$", shown, re.M)
    assert re.search(r"^ *1 +failed .* w-1 +no such place at 2$", shown, re.M)


def test_a_job_that_has_ended(pgq: Run, mail: Client) -> None:
    [job] = mail.claim_job("mail")
    mail.archive_job(job.job_id, job.lease_token, result={"sum": 2**64})
    found = pgq("job", str(job.job_id), "--json").json
    assert all(found.pop(name) for name in ("enqueued_at", "ended_at", "outcome"))
    same = {name: getattr(job, name) for name in ("job_id", "attempt", "key", "label", "payload")}
    none = {"last_error": None, "headers": None, "body": None, "history": []}
    ended = {"queue": "mail", "state": "finished", "result": {"sum": 2**64}}
    assert found == same | none | ended
    assert re.search(rf'^result +{{"sum": {2**64}}}$', pgq("job", str(job.job_id)).out, re.M)
    mail.admin.create_queue("calls", archive=False)
    gone = mail.enqueue("calls", 1).job_id
    [job] = mail.claim_job("calls")
    mail.nack(gone, job.lease_token, delay=timedelta(0), error="busy")
    [job] = mail.claim_job("calls")
    mail.ack(gone, job.lease_token)
    found = pgq("job", str(gone), "--json").json
    assert found["state"] == "gone"
    assert [attempt["error"] for attempt in found["history"]] == ["busy"]
    assert "no job 999999 is known" in pgq("job", "999999").err


def test_jobs_are_cancelled_by_a_filter(pgq: Run, mail: Client) -> None:
    some = ["cancel", "--queue", "mail", "--label", "bill"]
    assert pgq(*some, "--dry-run").out == '4 jobs of queue "mail" would be cancelled\n'
    assert pgq(*some, "--dry-run", "--json").json == {
        "queue": "mail",
        "cancelled": 0,
        "matching": 4,
    }
    asked = pgq(*some)
    assert asked.status == 1
    assert asked.err.startswith('pgq: Cancel 4 jobs of queue "mail"? Nobody can be asked here')
    assert payloads(mail) == [4, 5, 6, 7, 8, 9]
    assert pgq(*some, "--limit", "1", "--yes", "--json").json == {
        "queue": "mail",
        "cancelled": 1,
    }
    assert pgq(*some, "--error", "timeout", "--yes").out == 'cancelled 1 job of queue "mail"\n'
    assert payloads(mail) == [4, 7, 8, 9]
    mail.claim_job("mail")
    assert pgq("cancel", "--queue", "mail", "--all", "--yes", "--json").json["cancelled"] == 3
    last = pgq("cancel", "-q", "mail", "--all", "--leased", "--yes", "--json")
    assert last.json["cancelled"] == 1
    assert dead(mail) == [1, 2, 3]
    # nobody is asked for nothing
    assert pgq("cancel", "--queue", "mail", "--all").out == 'cancelled 0 jobs of queue "mail"\n'


def test_jobs_are_retried_by_a_filter(pgq: Run, mail: Client) -> None:
    asked = pgq("retry", "--queue", "mail", "--all")
    assert 'Retry 3 jobs of queue "mail"?' in asked.err
    soon = datetime.now(timezone.utc) + HOUR / 2
    assert pgq("retry", "-q", "mail", "--before", soon.isoformat(), "-y", "--json").json == {
        "queue": "mail",
        "retried": 0,
    }
    late = ["retry", "-q", "mail", "--since", soon.isoformat()]
    assert pgq(*late, "--error", "such", "-y", "--json").json["retried"] == 1
    assert pgq("retry", "-q", "mail", "--all", "--yes").out == 'retried 2 jobs of queue "mail"\n'
    assert {job.state for job in mail.jobs.peek_jobs("mail")} == {"ready"}


def test_dead_letters_are_redriven_by_a_filter(pgq: Run, mail: Client) -> None:
    some = ["redrive", "mail", "--error", "timeout"]
    assert pgq(*some, "--dry-run").out == '2 dead letters of queue "mail" would be redriven\n'
    assert 'Redrive 2 dead letters of queue "mail"?' in pgq(*some).err
    assert pgq(*some, "--label", "news", "--yes").out == 'redriven 1 job of queue "mail"\n'
    assert dead(mail) == [2, 3]
    assert 'Redrive 2 dead letters of queue "mail"?' in pgq("redrive", "mail", "--all").err
    assert pgq("redrive", "mail", "--all", "--yes", "--json").json["redriven"] == 2
    assert dead(mail) == []


def test_dead_letters_are_purged_by_a_filter(pgq: Run, mail: Client) -> None:
    some = ["purge", "mail", "--label", "bill"]
    assert pgq(*some, "--dry-run").out == '2 dead letters of queue "mail" would be removed\n'
    assert 'Remove 2 dead letters of queue "mail"?' in pgq(*some).err
    assert pgq(*some, "--limit", "1", "--yes").out == 'removed 1 job of queue "mail"\n'
    assert pgq("purge", "mail", "--dead", "--dry-run", "--json").json["matching"] == 2
    assert pgq("purge", "mail", "--dead", "--yes", "--json").json["removed"] == 2
    assert payloads(mail) == [4, 5, 6, 7, 8, 9]


def test_keys_of_an_ordered_queue(pgq: Run, client: Client) -> None:
    client.admin.create_queue("orders", ordered=True)
    client.enqueue_batch("orders", [1, 2, 3], keys=["a", "b", "a"])
    done = pgq("cancel", "-q", "orders", "--key", "a", "-y", "--json")
    assert done.json["cancelled"] == 2
    assert "is not ordered" in _key_of_mail(pgq, client).err


def _key_of_mail(pgq: Run, client: Client) -> Done:
    client.admin.create_queue("mail")
    return pgq("cancel", "-q", "mail", "--key", "a", "-y")


@pytest.mark.parametrize(
    "arguments",
    [
        ["cancel"],
        ["cancel", "--all"],
        ["cancel", "--queue", "mail"],
        ["cancel", "--queue", "mail", "--all", "--label", "bill"],
        ["cancel", "1", "--queue", "mail", "--all"],
        ["cancel", "1", "--label", "bill"],
        ["cancel", "1", "--dry-run"],
        ["cancel", "1", "--leased"],
        ["retry"],
        ["retry", "--queue", "mail"],
        ["retry", "1", "--limit", "1"],
        ["redrive", "mail"],
        ["redrive", "--all"],
        ["redrive", "mail", "--queue", "mail", "--all"],
        ["redrive", "mail", "--all", "--label", "bill"],
        ["redrive", "mail", "--job", "1", "--dry-run"],
        ["redrive", "mail", "--job", "1", "--per-second", "5"],
        ["purge", "mail"],
        ["purge", "mail", "--dead", "--label", "bill"],
        ["purge", "mail", "--all", "--dry-run"],
        ["purge", "mail", "--job", "1", "--limit", "1"],
    ],
    ids=" ".join,
)
def test_what_is_not_said_clearly(pgq: Run, mail: Client, arguments: list[str]) -> None:
    done = pgq(*arguments, "--yes")
    assert (done.status, done.out) == (2, "")
    assert re.match(r"pgq: (say|with --queue say|--|missing argument|no such option)", done.err)
    assert (payloads(mail), dead(mail)) == ([4, 5, 6, 7, 8, 9], [1, 2, 3])


def paged(monkeypatch: pytest.MonkeyPatch, name: str, size: int) -> list[Any]:
    """Have each call of this method look at so many jobs; returns what they are given."""
    calls: list[Any] = []
    original = getattr(Jobs, name)

    def small(jobs: Jobs, queue: str, **options: Any) -> Any:
        calls.append(options)
        most = min(options["max_jobs"] or size, size)
        return original(jobs, queue, **{**options, "max_jobs": most})

    monkeypatch.setattr(Jobs, name, small)
    return calls


@pytest.mark.parametrize(
    ("arguments", "name", "count"),
    [
        (["cancel", "--queue", "mail", "--all"], "cancel_jobs", 6),
        (["retry", "--queue", "mail", "--all"], "retry_jobs", 3),
        (["redrive", "mail", "--since", "1 hour ago"], "redrive", 3),
        (["purge", "mail", "--dead"], "purge_queue", 3),
    ],
    ids=["cancel", "retry", "redrive", "purge"],
)
def test_page_by_page(
    pgq: Run,
    mail: Client,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    name: str,
    count: int,
) -> None:
    calls = paged(monkeypatch, name, 1)
    assert f"{count} " in pgq(*arguments, "--dry-run").out
    assert f"{2} " in pgq(*arguments, "--limit", "2", "--dry-run").out
    calls.clear()
    assert re.search(rf" {count} jobs", pgq(*arguments, "--yes").out)
    assert len(calls) >= count
    assert calls[0]["after_id"] is None
    assert None not in [call["after_id"] for call in calls[1:]]


def test_the_pace_holds_over_pages(pgq: Run, mail: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page is spread from its own time on: the next one waits until that has passed."""
    pauses: list[float] = []
    monkeypatch.setattr("pgq.cli._bulk.time.sleep", pauses.append)
    paged(monkeypatch, "redrive", 2)
    done = pgq("redrive", "mail", "--since", "1 hour ago", "--per-second", "0.5", "--yes")
    assert done.out == 'redriven 3 jobs of queue "mail"\n'
    assert pauses == [pytest.approx(4, abs=0.9)]
    assert done.err == 'pgq: redriven 2 dead letters of queue "mail", goes on in 4 s\n'
    paged(monkeypatch, "redrive", 2)
    assert pgq("redrive", "mail", "--since", "1 hour ago", "--dry-run").status == 0
    assert len(pauses) == 1


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError("gone")], ids=repr)
def test_what_was_done_before_a_failure_is_told(
    pgq: Run, mail: Client, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    calls = paged(monkeypatch, "cancel_jobs", 2)
    small = Jobs.cancel_jobs

    def failing(jobs: Jobs, queue: str, **options: Any) -> Any:
        if len(calls) == 2:
            raise failure
        return small(jobs, queue, **options)

    monkeypatch.setattr(Jobs, "cancel_jobs", failing)
    done = pgq("cancel", "--queue", "mail", "--all", "--yes")
    assert done.status == (130 if isinstance(failure, KeyboardInterrupt) else 1)
    assert done.err.startswith('pgq: cancelled 4 jobs of queue "mail" before that\n')
    assert len(payloads(mail)) == 2


def test_settings_of_results_and_duplicates(pgq: Run, client: Client) -> None:
    made = pgq(
        *("queues", "create", "searches", "--keep-results", "--unique-until", "claimed"),
        *("--on-duplicate", "postpone", "--debounce-max", "1m", "--json"),
    ).json
    assert (made["keep_results"], made["on_duplicate"]) == (True, "postpone")
    assert made["debounce_max"] == "00:01:00"
    altered = pgq(
        *("queues", "alter", "searches", "--no-keep-results", "--debounce-max", "2m", "--json")
    ).json
    assert (altered["keep_results"], altered["debounce_max"]) == (False, "00:02:00")
    lifted = pgq("queues", "alter", "searches", "--no-limit", "debounce_max", "--json").json
    assert lifted["debounce_max"] is None


def test_letters_that_died_in_a_range(pgq: Run, mail: Client, clock: Clock) -> None:
    middle = datetime.now(timezone.utc) + timedelta(minutes=30)
    clock.advance("1 hour")
    job_id = mail.enqueue("mail", 10, max_attempts=1).job_id
    [job] = mail.claim_job("mail", label=None)
    while job.job_id != job_id:
        mail.ack(job.job_id, job.lease_token)
        [job] = mail.claim_job("mail")
    mail.reject_job(job_id, job.lease_token, error="late")
    late = pgq("purge", "mail", "--since", middle.isoformat(), "--dry-run", "--json")
    assert late.json["matching"] == 1
    early = pgq("purge", "mail", "--before", middle.isoformat(), "--yes", "--json")
    assert early.json["removed"] == 3
    assert dead(mail) == [10]
