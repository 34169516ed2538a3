"""Writes whose executors or drivers are killed on the way: every row once, and none too early."""

from __future__ import annotations

from typing import Any

import pytest

from support.bulk import staged
from support.cluster import PATIENCE, Cluster, Driver
from support.stage import PASSWORD, ROWS, TASKS, Stage
from support.waiting import aside

pytest.importorskip("pyspark")

# ---------------------------------------------------------------------------- killed executors

INSERT = "insert into pgq.write_chunks%"


@pytest.mark.slow
@pytest.mark.parametrize("fate", [pytest.param("commits", marks=pytest.mark.long), "rolls back"])
def test_an_executor_is_killed_while_its_commit_runs(
    cluster: Cluster, driver: Driver, stage: Stage, fate: str
) -> None:
    """Its transaction counts if it was committed after all, and else that of the next attempt."""
    stage.stop_commit_after("insert on pgq.staged_task")
    with stage.barrier():
        driver.start("publish", **stage.order(attempts=True))
        first = set(stage.until_waiting("advisory", "commit", count=TASKS))
        assert stage.visible() == []

        cluster.kill_executor()
        (again,) = stage.until_waiting("transactionid", INSERT)
        assert again not in first
        killed = stage.blocker_of(again)
        assert killed in first
        assert stage.visible() == []

        if fate == "rolls back":
            stage.terminate(killed)
            stage.until_waiting("advisory", "commit", count=TASKS)
            assert stage.visible() == []

    assert driver.result() == {"messages": ROWS, "duplicate": False}
    stage.assert_every_row_once()
    assert sorted(stage.attempts(), key=max) == ([{0}, {0}] if fate == "commits" else [{0}, {1}])


@pytest.mark.slow
@pytest.mark.parametrize("fate", [pytest.param("commits", marks=pytest.mark.long), "rolls back"])
def test_an_executor_is_killed_amid_chunks_that_are_published_as_they_come(
    cluster: Cluster, driver: Driver, stage: Stage, fate: str
) -> None:
    """The next attempt leaves out what was published, and goes on behind it."""
    stage.stop_after("insert on pgq.published_chunk", "new.chunk = 2")
    with stage.barrier():
        driver.start("publish", **stage.order(atomic=False))
        first = set(stage.until_waiting("advisory", INSERT, count=TASKS))
        assert len(stage.visible()) == TASKS * 2 * 100

        cluster.kill_executor()
        (again,) = stage.until_waiting("transactionid", INSERT)
        killed = stage.blocker_of(again)
        assert killed in first
        assert len(stage.visible()) == TASKS * 2 * 100

        if fate == "rolls back":
            stage.terminate(killed)
            stage.until_waiting("advisory", INSERT, count=TASKS)

    assert driver.result() == {"messages": ROWS, "duplicate": False}
    stage.assert_every_row_once()
    assert stage.passed() == (first if fate == "commits" else first - {killed} | {again})


@pytest.mark.slow
def test_a_password_is_in_no_log_of_the_cluster(
    cluster: Cluster, driver: Driver, stage: Stage
) -> None:
    assert driver.run("publish", **stage.order()) == {"messages": ROWS, "duplicate": False}
    logs = [*cluster.folder.glob("*.log"), *cluster.folder.rglob("stderr")]
    assert {"master.log", "worker1.log", "driver.log", "stderr"} <= {log.name for log in logs}
    for log in logs:
        assert PASSWORD not in log.read_text(), log
    # the executors' logs do tell what they did
    assert any("Finished task" in log.read_text() for log in logs if log.name == "stderr")


# ---------------------------------------------------------------------------- killed drivers


@pytest.mark.slow
def test_the_driver_is_killed_before_it_commits(
    local_driver: Driver, stage: Stage, broker: Any
) -> None:
    with stage.partitions_locked():
        local_driver.start("publish", **stage.order())
        (committing,) = stage.until_waiting("transactionid", "%pgq.commit_write%")
        assert staged(stage.connection) > 0
        local_driver.kill()
        stage.terminate(committing)
    assert stage.visible() == []

    done = stage.publish(broker)
    assert (done.messages, done.duplicate) == (ROWS, False)
    stage.assert_every_row_once()


@pytest.mark.slow
def test_the_driver_is_killed_after_its_commit_and_before_it_knows(
    local_driver: Driver, stage: Stage, broker: Any
) -> None:
    stage.stop_commit_after("update of committed_at on pgq.bulk_write")
    with stage.barrier():
        local_driver.start("publish", **stage.order())
        (committing,) = stage.until_waiting("advisory", "%pgq.commit_write%")
        assert stage.visible() == []
        local_driver.kill()
    stage.until_gone(committing)
    stage.assert_every_row_once()

    done = stage.publish(broker)
    assert (done.messages, done.duplicate) == (ROWS, True)
    stage.assert_every_row_once()


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["commits", "rolls back"])
def test_the_driver_is_killed_amid_chunks_that_are_published_as_they_come(
    local_driver: Driver, stage: Stage, broker: Any, fate: str
) -> None:
    """Others see a part; the next driver leaves out what was published, and goes on behind it."""
    stage.stop_after("insert on pgq.published_chunk", "new.chunk = 2")
    with stage.barrier():
        local_driver.start("publish", **stage.order(atomic=False))
        stopped = stage.until_waiting("advisory", INSERT, count=TASKS)
        local_driver.kill()
        if fate == "rolls back":
            for pid in stopped:
                stage.terminate(pid)
    for pid in stopped:
        stage.until_gone(pid)
    assert len(stage.visible()) == TASKS * (2 + (fate == "commits")) * 100

    stage.open_barrier()
    for duplicate in (False, True):
        done = stage.publish(broker, atomic=False)
        assert (done.messages, done.duplicate) == (ROWS, duplicate)
        stage.assert_every_row_once()


@pytest.mark.slow
def test_tasks_of_a_killed_driver_come_too_late(driver: Driver, stage: Stage, broker: Any) -> None:
    """What they commit after the write was started again is not published, and is cleaned up.

    The last one that needs the driver on the cluster.
    """
    stage.stop_commit_after("insert on pgq.staged_task")
    with stage.barrier():
        driver.start("publish", **stage.order())
        late = stage.until_waiting("advisory", "commit", count=TASKS)
        driver.kill()
        stage.open_barrier()
        # Were these waited for, it would wait for ever.
        done = aside(lambda: stage.publish(broker)).result(PATIENCE)
        assert (done.messages, done.duplicate) == (ROWS, False)
        # the mark of the write that they belong to
        stage.assert_every_row_once(left_behind=1)
        assert set(stage.waiting("advisory", "commit")) == set(late)
    for pid in late:
        stage.until_gone(pid)

    assert stage.passed() == set(late)
    assert staged(stage.connection) > 0
    stage.connection.cleanup()
    stage.assert_every_row_once()
