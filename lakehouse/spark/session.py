"""A SparkSession with the settings that Python data sources need, for one machine.

Invariant: a setting that the caller gives is the one that is used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

__all__ = ["NEEDED", "session"]

NEEDED: Mapping[str, str] = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
"""What a cluster's sessions should have as well; without the first, filters are not pushed down and Spark
refuses readers that take them."""

_LOCAL: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}


def session(
    app_name: str = "lakehouse",
    *,
    master: str | None = None,
    memory: str = "2g",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session on this machine, or the one that runs already.

    Args:
        app_name: for people.
        master: ``local[*]`` when not given, all cores of this machine.
        memory: of the driver, which does the work of a local session.
        config: further settings of Spark; they come last.
    """
    # Workers have to be the interpreter that has lakehouse; Spark takes whatever python3 is first in PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name).master(master or "local[*]")
    wanted = {**NEEDED, **_LOCAL, "spark.driver.memory": memory, **(config or {})}
    for key, value in wanted.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
