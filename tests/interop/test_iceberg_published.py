"""Published tables, read by other programs: pyiceberg, Spark with Iceberg's runtime, DuckDB 1.5.5."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from benchmarks import peer_env
from lakehouse.lake import Lake, connect
from lakehouse.storage.table import Table
from tests.interop.iceberg import peer
from tests.interop.iceberg.plain_rows import plain_rows

DUCKDB = "duckdb_iceberg"
ROOT = Path(__file__).parents[2]
START = dt.datetime(2026, 1, 1, 12, 30, 15, 250)
ALL_TYPES = pa.schema(
    {
        "id": pa.int64(),
        "part": pa.string(),
        "tiny": pa.int8(),
        "small": pa.int16(),
        "n": pa.int32(),
        "f": pa.float32(),
        "d": pa.float64(),
        "price": pa.decimal128(20, 4),
        "text": pa.string(),
        "raw": pa.binary(),
        "flag": pa.bool_(),
        "day": pa.date32(),
        "local": pa.timestamp("us"),
        "moment": pa.timestamp("us", "UTC"),
        "tags": pa.list_(pa.string()),
        "at": pa.struct({"x": pa.int32(), "y": pa.string()}),
    }
)


def row(number: int, text: str = "t") -> dict[str, Any]:
    """A row; of each column some values are null."""
    values = {
        "tiny": number % 100,
        "small": -number,
        "n": number * 1_000,
        "f": number / 4,
        "d": -number / 8,
        "price": decimal.Decimal(number) / 16,
        "text": f"{text}{number} é",
        "raw": bytes([number % 256, 0]),
        "flag": number % 2 == 0,
        "day": START.date() + dt.timedelta(days=number),
        "local": START + dt.timedelta(hours=number),
        "moment": (START + dt.timedelta(minutes=number)).replace(tzinfo=dt.UTC),
        "tags": ["a", None, str(number)],
        "at": {"x": number, "y": None},
    }
    kept = {name: None if number % 11 == place else one for place, (name, one) in enumerate(values.items())}
    return {"id": number, "part": "ab"[number % 2], **kept}


def rows(first: int, end: int, text: str = "t") -> list[dict[str, Any]]:
    """Rows with these keys."""
    return [row(number, text) for number in range(first, end)]


async def compacted(lake: Lake, name: str) -> Table:
    """Version 2, partitioned, all types, rows replaced and deleted, and compacted."""
    table = await lake.create_table(
        name, ALL_TYPES, primary_key=["id", "part"], partition_by="part", bucket=2
    )
    await table.upsert(rows(0, 200))
    await table.publish_iceberg()
    await table.upsert(rows(150, 260, "u"))
    await table.delete("id % 9 = 0")
    await table.compact(full=True)
    return table


async def appended(lake: Lake, name: str) -> Table:
    """Version 2, without a key."""
    table = await lake.create_table(name, ALL_TYPES, partition_by="part")
    for first in range(0, 90, 30):
        await table.append(rows(first, first + 30))
        await table.publish_iceberg()
    await table.delete("id % 7 = 0")
    return table


async def evolved(lake: Lake, name: str) -> Table:
    """Version 2, columns renamed, widened, dropped and added since files were written."""
    table = await lake.create_table(name, ALL_TYPES, primary_key="id")
    await table.upsert(rows(0, 40))
    await table.publish_iceberg()
    await table.rename_column("text", "words")
    await table.widen_column("n", "bigint")
    await table.widen_column("f", "double")
    await table.drop_column("raw")
    await table.add_column("more", "string")
    return table


async def with_vectors(lake: Lake, name: str) -> Table:
    """Version 3, with rows that deletion vectors hide, nothing compacted."""
    options = {"iceberg.format_version": 3}
    table = await lake.create_table(name, ALL_TYPES, primary_key="id", partition_by="part", options=options)
    await table.upsert(rows(0, 200))
    await table.publish_iceberg()
    await table.upsert(rows(150, 260, "u"))
    await table.publish_iceberg()
    await table.delete("id % 9 = 0")
    return table


async def with_defaults(lake: Lake, name: str) -> Table:
    """Version 3, with columns that were added with defaults after files were written."""
    table = await lake.create_table(name, ALL_TYPES, primary_key="id", options={"iceberg.format_version": 3})
    await table.upsert(rows(0, 40))
    await table.publish_iceberg()
    await table.add_column("word", "string", default="new")
    await table.add_column("count", "bigint", default=7, required=True)
    await table.add_column("cost", "decimal(9,2)", default=decimal.Decimal("1.50"))
    await table.add_column("since", "date", default=START.date())
    await table.add_column("seen", "timestamp", default=START.replace(tzinfo=dt.UTC))
    await table.upsert([{**row(1), "word": "w", "count": 1, "cost": None, "since": None, "seen": None}])
    return table


MADE: dict[str, Callable[[Lake, str], Awaitable[Table]]] = {
    "compacted": compacted,
    "appended": appended,
    "evolved": evolved,
    "vectors": with_vectors,
    "defaults": with_defaults,
}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """A directory with published tables, and the rows of each by our own scan."""
    place = tmp_path_factory.mktemp("published")

    async def make() -> dict[str, list[str]]:
        ours, told = {}, {}
        async with connect(f"file://{place}/warehouse") as lake:
            await lake.create_database("db")
            for name, maker in MADE.items():
                table = await maker(lake, f"db.{name}")
                report = await table.publish_iceberg()
                assert report.changed
                assert not report.lag
                ours[name] = plain_rows(await table.scan().to_pylist())
                directory = report.metadata.rpartition("/metadata/")[0]
                told[name] = {"metadata": report.metadata, "directory": directory}
        (place / "published.json").write_text(json.dumps(told))
        return ours

    return place, anyio.run(make)


def test_pyiceberg_reads_the_same_rows(published: tuple[Path, dict[str, list[str]]]) -> None:
    """pyiceberg has the rows of our scan, of every table."""
    place, ours = published
    for name, told in json.loads((place / "published.json").read_text()).items():
        table = StaticTable.from_metadata(told["metadata"])
        assert plain_rows(table.scan().to_arrow().to_pylist()) == ours[name], name


@pytest.mark.slow
def test_spark_reads_the_same_rows(published: tuple[Path, dict[str, list[str]]]) -> None:
    """Spark with Iceberg's runtime has the rows of our scan, of every table, opened by its directory."""
    problem = peer.problem()
    if problem is not None:
        pytest.skip(f"not run: {problem}")
    place, ours = published
    peer.run("published_rows", place)
    assert json.loads((place / "spark.json").read_text()) == ours


def test_duckdb_reads_the_same_rows(published: tuple[Path, dict[str, list[str]]]) -> None:
    """DuckDB 1.5.5 has the rows of our scan, of every table, opened by its metadata file."""
    python = peer_env.python_of(DUCKDB)
    if python is None:
        pytest.skip(f"not run: the environment {DUCKDB!r} is not made: `make peers` makes it")
    place, ours = published
    home = place / "home"
    home.mkdir(exist_ok=True)
    ended = subprocess.run(
        [python, "-m", "tests.interop.iceberg.duckdb_rows", place],
        cwd=ROOT,
        env={**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads((place / "duckdb.json").read_text()) == ours
