"""Sessions, what a cluster is told, and what is said where Spark cannot run."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import InvalidInputError
from lakehouse.spark.runtime.sessions import NEEDED, cluster_config, session


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
