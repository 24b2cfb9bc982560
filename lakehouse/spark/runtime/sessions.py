"""Spark sessions with the settings that Python data sources need, here and on a cluster.

``session()`` makes one for this machine, finds the one that runs, or connects to a Spark Connect server.
Clusters are given what :func:`cluster_config` says. Nothing here needs a jar.

Invariant: a setting that the caller gives is the one that is used, and of a session that runs already only
those settings are changed without which the data source does not work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakehouse.errors import InvalidInputError
from lakehouse.java import java_problem
from lakehouse.spark.runtime.worker_memory import WORKER_ENVIRONMENT

__all__ = ["NEEDED", "cluster_config", "session"]

NEEDED: Mapping[str, str] = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings that every session should have; without the first, filters are not pushed down and Spark refuses
readers that take them."""

_JVM = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Options of the JVM without Arrow's checks of every value, which cost a fifth: Spark checks the bounds of
vectors by rows of a batch."""

_SOCKETS: Mapping[str, str] = (
    {"spark.python.unix.domain.socket.enabled": "true"} if os.name == "posix" else {}
)
"""Sockets between the JVM and its workers: over TCP, a task waits forty milliseconds for acknowledgements."""

_LOCAL: Mapping[str, str] = {
    **_SOCKETS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.extraJavaOptions": _JVM,
}
_MASTER = "local[*, 4]"
"""All cores, and as many tries of a task as a cluster gives it; ``local[*]`` gives one."""
"""Seconds that ``java -version`` may take."""


def session(
    app_name: str = "lakehouse",
    *,
    master: str | None = None,
    remote: str | None = None,
    memory: str = "2g",
    worker_memory: str | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session on this machine, the one that runs already, or one of a Spark Connect server.

    Args:
        app_name: for people.
        master: ``local[*, 4]`` when not given: all cores of this machine, and four tries of a task.
        remote: ``sc://host:15002`` instead of a master; needs ``pip install 'pyspark[connect]'``.
        memory: of the JVM, which holds shuffles, sorts and what is collected.
        worker_memory: address space of the Python workers, divided by the cores that they serve
            (``spark.executor.cores``, 1 in a local session); None = no limit.
        config: further settings of Spark; they come last.

    Example::

        spark = lakehouse.spark.session(memory="4g")
        lakehouse.spark.register(spark, "s3://bucket/warehouse")
    """
    given = dict(config or {})
    # Workers have to be the interpreter that has lakehouse; Spark takes whatever python3 is first in PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if remote is not None:
        if master is not None:
            raise InvalidInputError(f"a session has a master ({master}) or is remote ({remote}), not both")
        builder = SparkSession.builder.appName(app_name).remote(remote)
        return _configured(builder.getOrCreate(), {**NEEDED, **given})
    running = SparkSession.getActiveSession()
    if running is not None:
        return _configured(running, {**NEEDED, **given})
    problem = java_problem()
    if problem is not None:
        raise InvalidInputError(problem)
    master = master or _MASTER
    if master.startswith("local"):
        # Else Spark looks for an address of this machine, and warns of the one it finds.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    wanted = {**NEEDED, **_LOCAL, "spark.driver.memory": memory}
    if worker_memory is not None:
        wanted["spark.executor.pyspark.memory"] = worker_memory
        wanted |= {f"spark.executorEnv.{key}": value for key, value in WORKER_ENVIRONMENT.items()}
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in {**wanted, **given}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def cluster_config(
    archive: str | None = None,
    *,
    worker_memory: str = "2g",
    environment: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Returns the configuration for sessions on a cluster, as ``--conf`` of ``spark-submit`` takes it.

    Args:
        archive: a packed environment that has lakehouse (``venv-pack``, ``conda-pack``), where executors
            can fetch it; None = their Python has it already.
        worker_memory: for the Python workers of an executor together; Spark asks the cluster for it.
        environment: variables of the executors, such as ``AWS_ENDPOINT_URL``. Better than credentials
            here is a role of the machines: configuration is shown in Spark's UI.

    Example::

        for key, value in lakehouse.spark.cluster_config("s3a://bucket/env.tar.gz").items():
            print(f"--conf {key}={value}")
    """
    config = {**NEEDED, **_SOCKETS, "spark.executor.pyspark.memory": worker_memory}
    config["spark.driver.extraJavaOptions"] = config["spark.executor.extraJavaOptions"] = _JVM
    # A worker keeps its lake, with connections and caches, as long as it lives.
    config["spark.python.worker.reuse"] = "true"
    if archive is not None:
        config["spark.archives"] = f"{archive}#environment"
        config["spark.executorEnv.PYSPARK_PYTHON"] = "./environment/bin/python"
    variables = {**WORKER_ENVIRONMENT, **(environment or {})}
    return config | {f"spark.executorEnv.{key}": value for key, value in variables.items()}


def _configured(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Gives a session that runs those of the settings that can still be changed."""
    for key, value in settings.items():
        if spark.conf.isModifiable(key):
            spark.conf.set(key, value)
    return spark
