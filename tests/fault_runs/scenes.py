"""What can break in a round of a fault run, and who is at work in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from pgq.local_spark import SparkSetupError, find_java, find_jdbc_driver

__all__ = ["PRODUCING", "SCENES", "SPARK", "Scene", "missing_for"]

# A few of each, so that several meet; those that come second go through PgBouncer where it is.
ROSTER = (
    *("publisher", "publisher", "once", "enqueuer", "ordered", "swept", "replacer", "bulk"),
    *("exact", "exact", "whole", "whole", "external", "leased", "leased", "manual"),
    *("worker", "worker", "worker", "cleaner", "runner", "operator"),
)

# One of each that a topic or queue needs; Spark takes most of the machine.
FEW = (
    *("publisher", "bulk", "exact", "whole", "external", "leased", "manual"),
    *("worker", "worker", "cleaner", "runner", "spark"),
)

SPARK = "spark1"
"""The client that is a Spark driver."""

PRODUCING = ("publisher", "once", "enqueuer", "ordered", "swept", "replacer", "bulk", "runner")


@dataclass(frozen=True)
class Scene:
    """What can break, how often in proportion, and where."""

    faults: Mapping[str, float]
    standby: bool = False
    small_disk: bool = False
    false_time: bool = False
    """The server's own clock is one that can be moved (``clock.c``)."""
    roster: Sequence[str] = ROSTER

    @property
    def spark(self) -> bool:
        """Whether a Spark driver is among the clients."""
        return "spark" in self.roster


SCENES = {
    "server": Scene(
        {
            "client": 10,
            "backend": 2,
            "postmaster": 1,
            "pooler": 1,
            "cleanup": 2,
            "cut": 4,
            "cancel": 3,
            "terminate": 3,
            "clock": 2,
        }
    ),
    "standby": Scene({"client": 8, "failover": 1.5, "cut": 2, "terminate": 2}, standby=True),
    "time": Scene({"client": 5, "server_clock": 4, "cut": 1, "postmaster": 0.5}, false_time=True),
    "disk": Scene({"disk": 2, "client": 5, "cut": 1, "backend": 0.5}, small_disk=True),
    "spark": Scene(
        {
            "client": 4,
            "driver": 5,
            "cut": 1.5,
            "terminate": 3,
            "backend": 0.7,
            "postmaster": 0.3,
            "failover": 0.5,
        },
        standby=True,
        roster=FEW,
    ),
}


def missing_for(scene: str) -> str:
    """What a scene asks for and this machine has not, and how to get it; or nothing."""
    if scene == "disk" and os.geteuid() != 0:
        return "only root can mount a small disk"
    if scene == "time" and not shutil.which("cc"):
        return "no C compiler: on Debian, apt-get install gcc libc6-dev"
    if scene == "spark":
        if not find_spec("pyspark"):
            return "no pyspark: pip install 'pgq-sql[spark]'"
        try:
            find_java()
            find_jdbc_driver()
        except SparkSetupError as error:
            return str(error)
    return ""
