"""Writes by the data source whose executors or drivers are killed: every row once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.bulk import staged
from support.clock import Clock
from support.cluster import Cluster, Driver
from support.stage import PASSWORD, ROWS, TASKS, Stage
from support.writer import assert_nothing_left

pytest.importorskip("pyspark")


def order(stage: Stage, **more: Any) -> dict[str, Any]:
    """The write that the tests make."""
    options = {"producer": "loader", "seq": 1, "chunkRows": 100}
    return {**stage.order(attempts=True), "options": options, **more}


# ---------------------------------------------------------------------------- killed executors


@pytest.mark.slow
@pytest.mark.parametrize(
    "column", [pytest.param(False, marks=pytest.mark.long), True], ids=["by option", "by column"]
)
def test_an_executor_is_killed_while_its_commit_runs(
    cluster: Cluster, driver: Driver, stage: Stage, clock: Clock, column: bool
) -> None:
    """What the killed attempt has staged is not published, whether it was committed or not."""
    stage.stop_commit_after("insert on pgq.staged_task")
    with stage.barrier():
        driver.start("save", **order(stage, column=column))
        stage.until_waiting("advisory", "commit", count=TASKS)
        cluster.kill_executor()
        # nobody waits for the one that was killed
        stage.until_waiting("advisory", "commit", count=TASKS + 1)
        assert stage.visible() == []
    assert driver.result() is None
    assert len(stage.visible()) == ROWS
    assert sorted(stage.attempts(), key=max) == [{0}, {1}]
    assert staged(stage.connection) > 0
    clock.advance("2 days")
    stage.connection.cleanup()
    stage.assert_every_row_once()


@pytest.mark.slow
def test_a_password_is_in_no_log_of_the_cluster(
    cluster: Cluster, driver: Driver, stage: Stage
) -> None:
    assert driver.run("save", **order(stage)) is None
    assert "unknown topic" in driver.run("save", **order(stage, topic="nowhere"))["error"]
    logs = [*cluster.folder.glob("*.log"), *cluster.folder.rglob("stderr")]
    assert {"master.log", "worker1.log", "driver.log", "stderr"} <= {log.name for log in logs}
    for log in logs:
        assert PASSWORD not in log.read_text(), log


# ---------------------------------------------------------------------------- killed drivers


@pytest.mark.slow
@pytest.mark.parametrize("column", [False, True], ids=["by option", "by column"])
def test_the_driver_is_killed_before_it_commits(
    local_driver: Driver, driver: Driver, stage: Stage, column: bool
) -> None:
    """What it has staged is never published, and is removed when the write is made again."""
    with stage.partitions_locked():
        # a Python worker outlives its driver for a while, and would commit once more
        local_driver.start("save", **order(stage, column=column, retry_seconds=0))
        (committing,) = stage.until_waiting("transactionid", "%pgq.commit_write%")
        local_driver.kill()
        stage.terminate(committing)
    assert staged(stage.connection) > 0
    assert driver.run("save", **order(stage, column=column)) is None
    stage.assert_every_row_once()
    assert_nothing_left(stage.connection)


@pytest.mark.slow
def test_a_write_is_made_again_while_its_driver_is_alive(
    local_driver: Driver, driver: Driver, stage: Stage
) -> None:
    """The commit of the first driver is refused; that of the second one publishes."""
    stage.stop_after("insert on pgq.bulk_write", "new.producer is not null")
    with stage.barrier():
        local_driver.start("save", **order(stage))
        stage.until_waiting("advisory", "%pgq.begin_write%")
        stage.open_barrier()
        driver.start("save", **order(stage))
        # its tasks have staged, and it waits for the name, which the first one has begun
        stage.until_waiting("transactionid", "%pgq.begin_write%")
    assert "is lost" in local_driver.result()["error"]
    assert driver.result() is None
    stage.assert_every_row_once()


@pytest.mark.slow
def test_the_driver_is_killed_after_its_commit_and_before_it_knows(
    local_driver: Driver, driver: Driver, stage: Stage
) -> None:
    stage.stop_commit_after("update of committed_at on pgq.bulk_write")
    with stage.barrier():
        local_driver.start("save", **order(stage))
        (committing,) = stage.until_waiting("advisory", "commit")
        assert stage.visible() == []
        local_driver.kill()
    stage.until_gone(committing)
    stage.assert_every_row_once()
    assert driver.run("save", **order(stage)) is None
    stage.assert_every_row_once()


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["commits", "rolls back"])
def test_the_driver_of_a_stream_is_killed_in_its_commit(
    local_driver: Driver, driver: Driver, stage: Stage, tmp_path: Path, fate: str
) -> None:
    """The next one runs the batch again: its checkpoint does not know that it was written."""
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "0.txt").write_text("".join(f"{number}\n" for number in range(ROWS)))
    places = {"lines": str(tmp_path / "lines"), "checkpoint": str(tmp_path / "checkpoint")}
    stage.stop_commit_after("update of committed_at on pgq.bulk_write")
    with stage.barrier():
        local_driver.start("save_stream", **order(stage, retry_seconds=0), **places)
        (committing,) = stage.until_waiting("advisory", "commit")
        local_driver.kill()
        if fate == "rolls back":
            stage.terminate(committing)
    stage.until_gone(committing)
    assert not list((tmp_path / "checkpoint" / "commits").glob("0"))
    assert driver.run("save_stream", **order(stage), **places) is None
    assert (tmp_path / "checkpoint" / "commits" / "0").exists()
    assert sorted(map(int, stage.visible())) == list(range(ROWS))
    assert_nothing_left(stage.connection)


@pytest.mark.slow
def test_tasks_of_a_killed_driver_come_too_late(
    local_driver: Driver, driver: Driver, stage: Stage, clock: Clock
) -> None:
    """What they stage after the write was made again is not published.

    The last one that needs the driver on the cluster.
    """
    stage.stop_commit_after("insert on pgq.staged_task")
    with stage.barrier():
        driver.start("save", **order(stage))
        late = stage.until_waiting("advisory", "commit", count=TASKS)
        driver.kill()
        stage.open_barrier()
        assert local_driver.run("save", **order(stage)) is None
        stage.assert_every_row_once()
        assert set(stage.waiting("advisory", "commit")) == set(late)
    for pid in late:
        stage.until_gone(pid)
    assert staged(stage.connection) > 0
    assert len(stage.visible()) == ROWS
    clock.advance("2 days")
    stage.connection.cleanup()
    stage.assert_every_row_once()
