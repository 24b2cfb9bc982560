"""The command line of Spark's jobs, as ``lakehouse spark`` and ``spark-submit`` have it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lakehouse.cli.app import app_for
from lakehouse.errors import NotFoundError
from lakehouse.spark import submit
from lakehouse.spark.runtime.connection import Connection, Warehouse, warehouse
from lakehouse.storage.table import Table
from tests.cli.test_asking import Terminal


def filled(connection: Connection) -> tuple[str, Warehouse, Table]:
    """The path of a warehouse with a table of two runs, and one without a key."""
    house = warehouse(connection)
    house.call(house.lake.create_database, "db")
    schema = pa.schema({"id": pa.int64(), "v": pa.int64()})
    table = house.call(house.lake.create_table, "db.t", schema, primary_key=["id"])
    other = house.call(house.lake.create_table, "db.log", schema)
    for number in range(2):
        rows = [{"id": one, "v": number} for one in range(20)]
        house.call(table.upsert, rows)
        house.call(other.append, rows)
    return connection.url.removeprefix("file://"), house, table


def test_every_command(
    spark: SparkSession, connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each does its job on a path or a URL, and prints the report, or JSON that can be read."""
    path, _, _ = filled(connection)

    def done(*words: str, code: int = 0) -> dict[str, Any]:
        assert submit.run([*words, "--json"], spark=spark) == code
        return dict(json.loads(capsys.readouterr().out))

    assert done("compact", path, "db.t", "--full", "--dry-run")["units"] == 1
    compacted = done("compact", connection.url, "db.t", "--full", "--task-bytes", "100000")
    assert (compacted["changed"], compacted["rows_out"]) == (True, 20)
    assert done("rewrite", path, "db.log", "--sort-by=-v,id", "--target-bytes", "9999")["rows_out"] == 40
    assert done("rebuild-indexes", path, "db.t", "--every")["files"] == 0
    assert done("remove-orphans", path, "db.t", "--older-than", "2020-01-01", "-y")["objects"] == 0
    assert done("expire", path, "db.t", "--retain", "1", "--grace", "0", "--yes")["snapshots"] > 0
    assert done("verify", path, "db.t")["damages"] == []
    [file] = Path(path).glob("db/t-*/data/**/*.parquet")
    file.write_bytes(file.read_bytes()[:-1])
    assert done("verify", path, "db.t", "--shallow", code=4)["damages"][0]["problem"] == "size"
    assert submit.run(["compact", path, "db.t"], spark=spark) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_wrong_words_and_missing_tables(
    spark: SparkSession, connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong usage ends with exit code 2 and says what is right; the engine's errors are its own."""
    path, _, _ = filled(connection)
    for words in (["compact"], ["rewrite", path, "db.log"], ["tidy", path, "db.t"], []):
        with pytest.raises(SystemExit) as ended:
            submit.run(words, spark=spark)
        assert ended.value.code == 2
    assert "usage: lakehouse spark" in capsys.readouterr().err
    with pytest.raises(NotFoundError, match="nowhere"):
        submit.run(["compact", path, "db.nowhere"], spark=spark)


def test_nothing_is_deleted_unasked(
    spark: SparkSession, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal and ``--yes`` what deletes is refused, after a no it ends; a dry run goes on."""
    path, house, table = filled(connection)
    words = ["expire", path, "db.t", "--retain", "1", "--grace", "0"]
    for stdin, code in ((io.StringIO("y\n"), 2), (Terminal("n\n"), 1)):
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(SystemExit) as ended:
            submit.run(words, spark=spark)
        assert ended.value.code == code
    assert submit.run([*words, "--dry-run"], spark=spark) == 0
    assert house.call(table.snapshots).num_rows == 3
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert submit.run(words, spark=spark) == 0
    assert house.call(table.snapshots).num_rows == 2


def test_the_command_of_the_package(
    spark: SparkSession, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``lakehouse spark`` hands its words over, help included, and takes the exit code."""
    path, _, _ = filled(connection)
    monkeypatch.setattr(submit, "_session", lambda master, memory: spark.newSession())
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    found = CliRunner().invoke(app_for(["spark"]), ["spark", "compact", path, "db.t", "--dry-run", "--json"])
    assert found.exit_code == 0
    assert json.loads(found.stdout)["dry_run"] is True
    told = CliRunner().invoke(app_for(["spark"]), ["spark", "compact", "--help"])
    assert told.exit_code == 0
    assert "--task-bytes" in told.stdout


@pytest.mark.slow
def test_spark_submit(connection: Connection) -> None:
    """The file runs under ``spark-submit``, in the session that this sets up; errors are one line."""
    path, house, table = filled(connection)
    script = str(Path(submit.__file__))
    home = Path(sys.prefix) / "bin" / "spark-submit"
    command = [str(home), "--master", "local[2]", "--conf", "spark.ui.enabled=false", script]
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    words = ["compact", path, "db.t", "--full", "--json"]
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, timeout=250, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["changed"] is True
    assert len(house.call(house.call(table.core.newest).files)) == 1
