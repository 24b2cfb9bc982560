"""The warehouse of a session."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakehouse.spark
import lakehouse.sync
from lakehouse.errors import InvalidInputError
from lakehouse.spark.runtime.connection import Connection
from lakehouse.spark.runtime.session_connection import connection_of, remember
from tests.kit.serving import serving


def test_a_session_remembers_its_warehouse(spark: SparkSession) -> None:
    """What was registered is found again, with its options; another session has its own."""
    other = spark.newSession()
    kept = Connection(url="file:///w", storage_options={"auto_mkdir": True}, settings={"cache.max_bytes": 5})
    remember(other, kept)
    assert connection_of(other) == kept
    with pytest.raises(InvalidInputError, match="no warehouse is known"):
        connection_of(spark.newSession())


def test_plans_and_settings_show_no_secret(spark: SparkSession, tmp_path: Path) -> None:
    """Neither plans, in every detail, nor what ``SET`` shows hold what was given as storage options."""
    with lakehouse.sync.connect(str(tmp_path / "wh")) as lake:
        lake.create_database("db")
        lake.create_table("db.t", pa.schema({"id": pa.int64()}), primary_key="id").append([{"id": 1}])
    canary = "c4n4ry-of-a-secret"
    session = spark.newSession()
    with serving(tmp_path) as pages:
        told = {"headers": {"X-Who": canary, "Authorization": canary}}
        connection = Connection(url=f"{pages.url}/wh", storage_options=told)
        lakehouse.spark.register(session, connection)
        text = json.dumps(told)
        frames = [
            lakehouse.spark.table(session, "db.t"),
            lakehouse.spark.table(session, "db.t", connection=connection),
            session.read.format("lakehouse")
            .option("warehouse", connection.url)
            .load("db.t", storage_options=text),
        ]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            for frame in frames:
                assert frame.count() == 1
                frame.explain("extended")
                frame.explain("formatted")
        said.write(str(session.sql("SET").collect()))
        said.write(str(session.sql("SET -v").collect()))
    assert "lakehouse" in said.getvalue()
    assert canary not in said.getvalue()
