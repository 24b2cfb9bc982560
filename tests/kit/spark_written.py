"""Tables that tests of Spark's writes write into, and what is in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakehouse.format.metadata.file_entry import FileEntry
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.storage.table import Table

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string(), "v": pa.int64()})
NAME = "db.t"


def made(connection: Connection, name: str = NAME, schema: pa.Schema = SCHEMA, **how: Any) -> Table:
    """A new table in a database of its own name."""
    house = warehouse(connection)
    database = name.partition(".")[0]
    house.call(house.lake.create_database, database, if_not_exists=True)
    return house.call(house.lake.create_table, name, schema, **how)


def frame(spark: SparkSession, rows: list[Mapping[str, Any]], parts: int = 2) -> DataFrame:
    """A data frame of rows in so many partitions."""
    table = pa.Table.from_pylist(list(rows), SCHEMA)
    return spark.createDataFrame(table).repartition(parts)


def some(*numbers: int, v: int = 0, part: str = "a") -> list[Mapping[str, Any]]:
    """Rows with these ids."""
    return [{"id": number, "part": part, "v": v} for number in numbers]


def rows_of(connection: Connection, name: str = NAME) -> list[dict[str, Any]]:
    """What a process reads that opens the table afresh, by id."""
    house = warehouse(connection)

    async def read() -> list[dict[str, Any]]:
        return await (await house.lake.table(name)).scan().to_pylist()

    return sorted(house.call(read), key=repr)


def values_of(connection: Connection, name: str = NAME) -> dict[int, int]:
    """The column ``v`` by ``id``."""
    return {row["id"]: row["v"] for row in rows_of(connection, name)}


def entries_of(connection: Connection, name: str = NAME) -> list[FileEntry]:
    """The live files."""
    house = warehouse(connection)
    core = house.table(name)

    async def files() -> list[FileEntry]:
        return list(await (await core.newest()).files())

    return house.call(files)


def data_files(connection: Connection) -> set[str]:
    """Objects that hold rows, of all tables of a warehouse on disk."""
    root = Path(urlparse(connection.url).path)
    return {str(path) for path in root.rglob("data/**/*") if path.is_file()}


__all__ = [
    "NAME",
    "SCHEMA",
    "data_files",
    "entries_of",
    "frame",
    "made",
    "rows_of",
    "some",
    "values_of",
]
