"""The benchmarks that run for long: how they judge, and that a short run of each is sound."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from support.house import ROOT
from support.session import Session

sys.path.append(str(ROOT))

from benchmarks import held, months
from benchmarks.holding import Overlapping
from benchmarks.judging import Limit, judge, judge_peak, judge_return, levels
from benchmarks.months_ledger import Digest, Ledger, check
from benchmarks.months_report import Phase, Report, limit_of
from benchmarks.pgbench import BenchmarkError
from benchmarks.scaled import scale_clock

Points = Sequence[tuple[float, float]]


def series(value: Callable[[float], float], count: int = 200, begin: float = 0) -> Points:
    """Samples of a second each, with a little noise."""
    noise = random.Random(7)
    return [(begin + n, value(n / count) * noise.uniform(0.98, 1.02)) for n in range(count)]


# ---------------------------------------------------------------------------- judging


@pytest.mark.parametrize(
    ("course", "verdict"),
    [
        (lambda x: 100, "flat"),
        (lambda x: 100 + 30 * x, "grows"),
        (lambda x: 100 + 11 * x, "creeps"),
        (lambda x: 100 - 50 * x, "flat"),
        (lambda x: 10 if x < 0.1 else 100, "flat"),
        (lambda x: 100 if x < 0.5 else 200, "grows"),
        (lambda x: 5000 if 0.91 < x < 0.93 else 100, "flat"),
        (lambda x: 100 * (1 + (x * 40) % 1), "flat"),
    ],
    ids=["level", "slope", "slight slope", "falling", "warm-up", "step", "hiccup", "teeth"],
)
def test_a_course_and_what_it_is_called(course: Callable[[float], float], verdict: str):
    assert judge(series(course), Limit(0.1)).verdict == verdict


def test_what_is_tolerated_is_a_share_and_something_in_any_case():
    rising = series(lambda x: 2 if x < 0.5 else 6)
    assert judge(rising, Limit(0.1)).verdict == "grows"
    assert judge(rising, Limit(0.1, 5)).verdict == "flat"
    assert judge(rising, Limit(3)).verdict == "flat"


def test_a_bound_holds_for_each_sample_of_the_end():
    teeth = series(lambda x: 1000 * ((x * 7) % 1))
    assert judge(teeth, Limit(most=1100)).verdict == "bounded"
    late = [*teeth[:-1], (200.0, 1200.0)]
    assert judge(late, Limit(most=1100)).verdict == "grows"
    early = [*teeth[:100], (100.0, 1200.0), *teeth[101:]]
    assert judge(early, Limit(most=1100)).verdict == "bounded"


def test_peaks_are_compared_where_asked():
    spikes = [(float(n), 100.0 if n % 50 else 100.0 + 2 * n) for n in range(150)]
    assert judge(spikes, Limit(0.1), parts=3).verdict == "flat"
    assert judge(spikes, Limit(0.1), parts=3, peaks=True).verdict == "grows"


def test_what_fills_up_is_judged_from_the_middle_on():
    filling = series(lambda x: min(100 + 60 * x, 115 + 15 * x))
    assert judge(filling, Limit(0.1)).verdict == "grows"
    assert judge(filling, Limit(0.1, fills=True)).verdict == "flat"
    assert judge(series(lambda x: 100 + 60 * x), Limit(0.1, fills=True)).verdict == "grows"


def test_too_few_samples_say_nothing():
    assert judge([(0.0, 1.0)] * 9, Limit()).verdict == "too short"
    assert judge_return([(0.0, 1.0)] * 9, [(0.0, 1.0)] * 50, Limit()).verdict == "too short"
    assert levels([(0.0, 1.0)] * 9) == []


def test_a_return_to_the_level_before():
    before = series(lambda x: 100)
    assert judge_return(before, series(lambda x: 300 - 200 * x**0.2), Limit(0.1)).good
    assert not judge_return(before, series(lambda x: 300 - 100 * x), Limit(0.1)).good


def test_a_report_is_good_only_when_nothing_grows_and_no_promise_was_broken():
    phases = months.phases_of(800)
    assert [phase.name for phase in phases] == ["calm", "snapshots", "ids", "after"]
    assert phases[-1].end == pytest.approx(800)
    level = series(lambda x: 100, 800)
    good = Report(phases, {"MB: database": level, "segments": level}, {}, [], {})
    assert good.good
    assert not Report(phases, good.series, {}, ["an offset was given twice"], {}).good
    steep = [(x, y if x < 400 else y * 1.02 ** (x - 400)) for x, y in level]
    grown = Report(phases, {"MB: database": level, "rows: job": steep}, {}, [], {})
    assert not grown.good
    assert set(grown.growing()) == {"rows: job"}
    assert {name for name, one in grown.judged("rows: job").items() if not one.good} == {
        *("snapshots", "ids", "after")
    }
    assert "not flat: rows: job" in grown.markdown({"revision": "x"})
    again = Report.read(json.loads(json.dumps(grown.written({}))))
    assert again.markdown({}) == grown.markdown({})


def test_what_keeps_its_most_is_held_against_that():
    assert judge_peak([100, 300, 120], series(lambda x: 310), Limit(0.1)).good
    assert not judge_peak([100, 300, 120], series(lambda x: 340), Limit(0.1)).good
    phases = months.phases_of(800)
    risen = [(float(n), 100.0 if n < 500 else 300.0) for n in range(800)]
    report = Report(phases, {"MB: job": risen, "segments": risen}, {}, [], {})
    assert report.judged("MB: job")["after"].good
    assert not report.judged("segments")["after"].good


def test_a_machine_that_gets_slower_is_not_what_is_judged():
    phases = months.phases_of(800)
    slower = series(lambda x: 1 + 3 * x, 800)
    calls = series(lambda x: 20 + 60 * x, 800)
    named = {"ms: a commit without pgq, p50": slower, "ms: claim, p50": calls}
    assert Report(phases, named, {}, [], {}).good
    assert set(Report(phases, {"ms: claim, p50": calls}, {}, [], {}).growing()) == {
        "ms: claim, p50"
    }


def test_each_limit_is_that_of_the_phase():
    assert limit_of("MB: database", "calm").share == 0.1
    assert limit_of("age: oldest transaction id", "calm").most == 130_000
    assert limit_of("age: oldest transaction id", "ids").most == 200_000
    assert limit_of("ms: claim, p99", "snapshots").slack == 30
    assert Phase("calm", 1, 3).of([(0, 1), (1, 2), (2, 3), (3, 4)]) == [(1, 2), (2, 3)]


# ---------------------------------------------------------------------------- the ledger


def test_offsets_have_to_follow_each_other():
    ledger = Ledger()
    ledger.consume("t", "g", 0, {1: 11, 2: 12})
    ledger.consume("t", "g", 1, {1: 13})
    ledger.consume("t", "g", 0, {3: 14})
    assert ledger.troubles == []
    ledger.consume("t", "g", 0, {5: 15})
    assert "g of t/0 got 5 to 5, 1 messages, where 4 was next" in ledger.troubles
    ledger.consume("t", "g", 1, {1: 13})
    assert len(ledger.troubles) == 2


def test_a_job_ends_once_and_is_not_given_out_behind_that():
    ledger = Ledger()
    ledger.claimed("q", [1, 2])
    ledger.claimed("q", [1])
    ledger.end("q", [1])
    assert ledger.troubles == []
    ledger.end("q", [1])
    ledger.claimed("q", [1])
    assert ledger.troubles == [
        "job 1 of q ended twice",
        "job 1 of q was given out after it had ended",
    ]


def test_jobs_of_a_key_end_in_order():
    ledger = Ledger()
    for key, number in (("a", 1), ("b", 1), ("a", 5)):
        ledger.in_turn(key, number)
    assert ledger.troubles == []
    ledger.in_turn("a", 4)
    assert ledger.troubles == ["4 of key a ended after 5"]


def test_a_digest_tells_sets_apart():
    digests = []
    for numbers in ([1, 4, 4, 7], [7, 4, 4, 1], [2, 2, 5, 7], [1, 4, 7]):
        digests.append(Digest())
        digests[-1].add(numbers)
    one, same, *others = digests
    assert one == same
    assert one not in others


def test_the_database_has_to_agree_in_the_end(connection: Session):
    ledger = Ledger()
    connection.create_topic(topic="t", partitions=1)
    connection.create_group(topic="t", consumer_group="g")
    connection.create_queue(queue="q")
    assert check(connection, ledger, ["t by g"]) == []
    connection.publish(topic="t", payload={})
    ledger.publish("t", [7])
    [unread, behind] = check(connection, ledger, ["t by g"])
    assert unread.startswith("t by g: ")
    assert behind == "g of t/0 is at 0 of 1, having read 0"
    [message] = connection.consume(topic="t", consumer_group="g")
    ledger.consume("t", "g", 0, {message.log_offset: 7})
    assert check(connection, ledger, ["t by g"]) == []

    [job_id, lost_id] = (connection.enqueue(queue="q", payload={}).job_id for _ in "ab")
    ledger.enqueued["q"] |= {job_id, lost_id}
    assert len(check(connection, ledger, [])) == 2
    for job in connection.claim_job(queue="q", max_jobs=2):
        assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)
    ledger.end("q", [job_id])
    assert check(connection, ledger, []) == [f"q: 1 jobs have no end, such as [{lost_id}]"]
    ledger.end("q", [lost_id])
    assert check(connection, ledger, []) == []


def test_each_tick_has_to_be_there_once(connection: Session):
    ledger = Ledger()
    connection.create_topic(topic="t")
    connection.create_schedule(
        schedule="s",
        topic="t",
        payload={},
        every="1 hour",
        starts_at="2026-01-01 00:00+00",
        missed="all",
    )
    connection.run_schedules(max_ticks=2)
    assert check(connection, ledger, []) == ["schedule s: 0 ticks, not 2"]
    ledger.ticks.update([("s", "first"), ("s", "second")])
    assert check(connection, ledger, []) == []
    ledger.ticks.update([("s", "second")])
    assert check(connection, ledger, []) == ["tick ('s', 'second') was written more than once"]


# ---------------------------------------------------------------------------- clock and holds


def test_the_clock_runs_faster(connection: Session):
    scale_clock(connection, 3600)
    [(elapsed,)] = connection.execute(
        "select prosrc from pg_proc where proname = '_raise_floor'"
    ).fetchall()
    assert "(clock_timestamp() - now()) * 3600" in elapsed
    ahead = "select extract(epoch from pgq._clock() - clock_timestamp())"
    [(first,)] = connection.execute(ahead).fetchall()
    connection.execute("select pg_sleep(0.1)")
    [(second,)] = connection.execute(ahead).fetchall()
    assert second - first >= 3599 * 0.1
    connection.create_queue(queue="q", lease="30 minutes")
    connection.enqueue(queue="q", payload={})
    assert connection.claim_job(queue="q")
    connection.execute("select pg_sleep(0.6)")
    assert connection.claim_job(queue="q")


def test_a_function_that_reads_the_real_time_is_noticed(connection: Session):
    connection.execute(
        "create function pgq.surprise() returns timestamptz language sql as 'select now()'"
    )
    with pytest.raises(BenchmarkError, match="surprise reads the real time"):
        scale_clock(connection, 10)


OPEN = """
select count(*) from pg_stat_activity
where datname = current_database() and state = 'idle in transaction'
    and (backend_xid is not null) = %s
"""


def test_long_transactions_overlap(connection: Session):
    seen = []
    with Overlapping(connection.info.dsn) as overlapping:
        for with_id in (False, True):
            for tenth in range(40):
                before = dict(overlapping.open)
                overlapping.keep(tenth / 10, 2.0, with_id=with_id)
                left = set(before.values()) & set(overlapping.open.values())
                seen.append(bool(left) or not before or with_id)
                [(count,)] = connection.execute(OPEN, [with_id]).fetchall()
                assert count >= 1
        assert all(seen)
        assert 1 <= len(overlapping.open) <= 2
    assert overlapping.open == {}


def test_a_course_is_a_line():
    course = held.Course(held="snapshot", system="pgq", load="queue", offered=150)
    assert course.offered == 150
    for n in range(20):
        course.minutes.append(n / 2)
        course.reached.append(150)
        course.p50.append(2.0 + n)
        course.p99.append(9.0)
        course.dead.append(1000.0 * n)
        course.megabytes.append(20.0)
    heading, line = held.rows([course])
    shown = dict(zip(heading, line, strict=True))
    assert shown["p50, ms"] == "3.50 → 19.50"
    assert shown["dead rows"] == "19,000"
    assert shown["p50 is"] == "grows"
    course.p50 = [2.0] * 20
    assert course.row()[-1] == "flat"


# ---------------------------------------------------------------------------- short runs


def run(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "benchmarks" / program, *arguments],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


@pytest.mark.slow
def test_months_in_a_minute(tmp_path: Path):
    done = run("months.py", "--quick", "--json", tmp_path / "a.json", "--plot", tmp_path / "a.svg")
    assert (tmp_path / "a.json").exists(), done.stderr
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["troubles"] == []
    assert found["done"]["cleanup: segment truncated"] > 20
    for what in ("leases", "ticks", "jobs redriven", "workers that died", "bulk writes"):
        assert found["done"][what] > 0
    assert {"MB: database", "rows: pg_class", "ms: claim, p99"} <= set(found["series"])
    assert "median latency" in (tmp_path / "a.svg").read_text()


@pytest.mark.slow
def test_everything_is_held_for_seconds(tmp_path: Path):
    done = run("held.py", "--quick", "--json", tmp_path / "a.json", "--plot", tmp_path / "a.svg")
    assert done.returncode == 0, done.stderr
    courses = json.loads((tmp_path / "a.json").read_text())["courses"]
    assert len(courses) == 4 * 6
    assert all(min(course["reached"]) > 0 for course in courses)
    assert "dead rows" in (tmp_path / "a.svg").read_text()
