"""Spark with Iceberg's own runtime and a Hadoop catalog, for programs run by the peers' Python.

Nothing of ours is imported but these tests: the peer's environment has PySpark and no more.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

__all__ = ["CATALOG", "arguments", "fresh", "session", "version_of"]

CATALOG = "ice"
_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def arguments(about: str | None) -> argparse.Namespace:
    """Where tables go, and the jars of the peer."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("warehouse", type=Path)
    parser.add_argument("jars", help="separated by colons")
    return parser.parse_args()


def session(warehouse: Path, jars: str, *, cores: int = 2) -> Any:
    """A session whose catalog ``ice`` keeps its tables below the directory."""
    from pyspark.sql import SparkSession

    config = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraClassPath": jars,
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": _EXTENSIONS,
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": str(warehouse),
        f"spark.sql.catalog.{CATALOG}.cache-enabled": "false",
    }
    builder = SparkSession.builder.appName("iceberg-tables").master(f"local[{cores}]")
    for key, value in config.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def fresh(spark: Any, zone: str = "UTC") -> Any:
    """Another session of the same Spark, with settings of its own."""
    made = spark.newSession()
    made.conf.set("spark.sql.session.timeZone", zone)
    return made


def version_of(spark: Any) -> dict[str, str]:
    """The versions of Spark and of Iceberg."""
    return {
        "spark": spark.version,
        "iceberg": spark._jvm.org.apache.iceberg.IcebergBuild.version(),
    }
