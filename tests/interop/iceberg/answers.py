"""Answers of Spark about a table, as plain values: rows, files of rows, and which rows conditions choose.

Conditions are selected as columns and not as a filter, so that no pruning has a part in the answers.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["answer", "metadata_file", "plain"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)  # noqa: UP017 - the peer's Python may be older


def plain(value: Any) -> Any:
    """A value as JSON has it, the same from Spark's rows and from Arrow's."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return (value - _EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if hasattr(value, "asDict"):
        return plain(value.asDict())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def answer(spark: Any, table: str, conditions: Sequence[str] = (), *, version: str = "") -> dict[str, Any]:
    """Rows by ``id``, the files they are in, and for each condition the ids of rows that it is true of.

    Args:
        version: a clause of time travel, such as ``VERSION AS OF 'end'``.
    """
    fields = spark.sql(f"SELECT * FROM {table} {version}").schema.fields
    # Python would see timestamps in the zone of its process.
    columns = [
        f"unix_micros(`{field.name}`) AS `{field.name}`"
        if field.dataType.typeName() == "timestamp"
        else f"`{field.name}`"
        for field in fields
    ]
    asked = [f"({text}) AS `condition {number}`" for number, text in enumerate(conditions)]
    selected = ", ".join([*columns, "`_file` AS `its file`", *asked])
    found = spark.sql(f"SELECT {selected} FROM {table} {version}").collect()
    found.sort(key=lambda row: row["id"])
    names = [field.name for field in fields]
    files = sorted({row["its file"] for row in found})
    return {
        "columns": names,
        "types": [field.dataType.simpleString() for field in fields],
        "rows": [[plain(row[name]) for name in names] for row in found],
        "files": [_relative(path) for path in files],
        "file_of": [files.index(row["its file"]) for row in found],
        "ids": [[row["id"] for row in found if row[f"condition {n}"]] for n in range(len(conditions))],
    }


def _relative(path: str) -> str:
    """A data file's path from its table's directory on."""
    return "data/" + path.partition("/data/")[2]


def metadata_file(directory: Path) -> str:
    """The newest metadata file of a table of a Hadoop catalog, from its directory on."""
    version = int((directory / "metadata" / "version-hint.text").read_text())
    [found] = (directory / "metadata").glob(f"v{version}*.metadata.json")
    return f"metadata/{found.name}"
