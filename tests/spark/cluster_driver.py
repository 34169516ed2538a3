"""A Spark driver for tests that kill it, or the executors that work for it.

``python cluster_driver.py SETTINGS``, a JSON object with the master and further settings of Spark.
It says which process its JVM is, and then reads what to do line by line: JSON objects, each of
which it answers with a line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pgq.spark import Pgq
from pgq.spark._local import local_session


def publish(spark: Any, order: dict[str, Any]) -> dict[str, Any]:
    """Publish the numbers from 0, as texts."""
    numbers = spark.range(0, order["rows"], 1, order["tasks"])
    done = Pgq(spark, order["url"], order["properties"]).publish(
        numbers.selectExpr("cast(id as string) as value"), order["topic"], **order["options"]
    )
    return {"messages": done.messages, "repeated": done.repeated}


def main(settings: dict[str, Any]) -> None:
    spark = local_session(settings["master"], "pgq cluster driver", **settings["conf"])
    jvm = spark._jvm
    assert jvm is not None
    print(json.dumps({"jvm": jvm.java.lang.ProcessHandle.current().pid()}), flush=True)
    for line in sys.stdin:
        try:
            answer = {"publish": publish}[(order := json.loads(line))["work"]](spark, order)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
