"""Sessions, what a cluster is told, and what is said where Spark cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import InvalidInputError
from lakehouse.spark.runtime.sessions import NEEDED, cluster_config, java_problem, session


def test_the_session_that_runs_is_the_one_that_is_given(spark: SparkSession) -> None:
    """Beside a session, the same one comes back, able to use the data source and otherwise as it was."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    found = session("another name", memory="9g", config={"spark.sql.shuffle.partitions": "3"})
    try:
        assert found is spark
        assert found.conf.get("spark.sql.shuffle.partitions") == "3"
        assert {key: found.conf.get(key) for key in NEEDED} == NEEDED
        assert found.conf.get("spark.driver.memory") == "1g"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_a_session_has_one_place() -> None:
    """A master and a server at once are refused."""
    with pytest.raises(InvalidInputError, match="not both"):
        session(master="local[2]", remote="sc://127.0.0.1")


def test_a_cluster_is_told_everything_by_configuration() -> None:
    """Pushdown, memory of workers, the environment's interpreter and variables; no jars."""
    found = cluster_config("s3a://b/e.tar.gz", worker_memory="3g", environment={"AWS_REGION": "eu-west-1"})
    assert found["spark.sql.python.filterPushdown.enabled"] == "true"
    assert found["spark.executor.pyspark.memory"] == "3g"
    assert found["spark.archives"] == "s3a://b/e.tar.gz#environment"
    assert found["spark.executorEnv.PYSPARK_PYTHON"] == "./environment/bin/python"
    assert found["spark.executorEnv.AWS_REGION"] == "eu-west-1"
    assert not any("jar" in key for key in found)
    assert "spark.archives" not in cluster_config()


@pytest.mark.parametrize(
    ("says", "problem"),
    [
        ('openjdk version "17.0.15" 2025-04-15', None),
        ('openjdk version "21" 2023-09-19', None),
        ('java version "1.8.0_402"', "is Java 8"),
        ("something else", "does not say its version"),
    ],
)
def test_the_version_of_java_is_looked_at(
    says: str, problem: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java 17 or newer is right; what is wrong with another one is said."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = java_problem()
    assert (found is None) if problem is None else (found is not None and problem in found)


def test_a_machine_without_java_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The word is a clear one, and says where Java was looked for."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java_problem() == "Spark needs Java 17 or newer: there is none in PATH"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_problem() == f"Spark needs Java 17 or newer: there is none in JAVA_HOME ({tmp_path})"
