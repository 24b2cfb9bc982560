"""The statements that make a table of a point of the axes.

Three batches of rows come in between the changes: before all of them, after the partitioning changed, and
after the schema changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.interop.iceberg.axes import Point
from tests.interop.iceberg.equality_deletes import delete_by_ids
from tests.interop.iceberg.values import POOLS, SPARK_TYPES, literal

__all__ = ["BATCH", "Recipe", "Step", "recipe"]

Step = str | Callable[[Any, str], object]
"""A statement, or a function of session and table. ``{t}`` is the table, ``{name}`` its name."""

BATCH = 100
"""Rows of a batch."""
_WIDTHS = {"int": 10, "long": 100, "string": 2, "decimal": 50, "binary": 2}
_WIDER = {"int": "BIGINT", "float": "DOUBLE", "decimal": "DECIMAL(18, 2)"}
_UNITS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
_FINER = {"years(k)": "months(k)", "months(k)": "days(k)", "days(k)": "months(k)", "hours(k)": "days(k)"}


@dataclass(kw_only=True)
class Recipe:
    """A table's statements, and the names that its columns have in the end."""

    create: str
    steps: list[Step] = field(default_factory=list)
    key: str = "k"
    name: str | None = "name"
    columns: dict[str, str] = field(default_factory=dict)
    """Names of columns, and what an INSERT selects for them."""


def partition_fields(point: Point) -> list[str]:
    """Of a table as it is made."""
    transform, kind = point["transform"], point["type"]
    if transform == "none":
        return []
    if transform in _UNITS:
        return [f"{_UNITS[transform]}(k)"]
    single = {"identity": "k", "bucket": "bucket(4, k)", "truncate": f"truncate({_WIDTHS.get(kind)}, k)"}
    if transform in single:
        return [single[transform]]
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return ["months(k)", "bucket(2, id)"]
    if kind in ("boolean", "float", "double"):
        return ["k", "region"]
    return ["bucket(2, k)", "region"] if kind in ("int", "long", "binary") else [single["truncate"], "region"]


def recipe(point: Point) -> Recipe:
    """How to make the table."""
    made = Recipe(create=_create(point), columns=_columns(point))
    made.steps.append(_insert(made, 0))
    if point["refs"] == "both":
        made.steps.append("ALTER TABLE {t} CREATE TAG start")
    if point["version"] == "upgraded":
        made.steps.append(_set("format-version", "2"))
    _change_partitioning(made, point)
    made.steps.append(_insert(made, 1))
    if point["refs"] == "both":
        made.steps.append("ALTER TABLE {t} CREATE BRANCH side")
    _upgrade_for(made, point, before_deletes=True)
    _delete(made, point, 7, 3)
    _change_schema(made, point)
    _upgrade_for(made, point, before_deletes=False)
    made.steps.append(_insert(made, 2))
    _delete(made, point, 11, 4)
    if point["refs"] == "both":
        made.steps.append(_insert(made, 3, ".branch_side"))
    made.steps.extend(_HISTORY[point["history"]])
    return made


def _create(point: Point) -> str:
    by, version = partition_fields(point), point["version"]
    merge_on_read = point["deletes"] in ("by file", "by partition", "vectors")
    properties = {
        "format-version": "1" if version == "upgraded" else version,
        "write.format.default": point["format"],
        "write.metadata.metrics.default": point["metrics"],
        "write.delete.mode": "merge-on-read" if merge_on_read else "copy-on-write",
        "write.delete.granularity": "file" if point["deletes"] == "by file" else "partition",
        "write.distribution-mode": "none",
        "write.spark.fanout.enabled": "true",
    }
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    partitioned = f"PARTITIONED BY ({', '.join(by)})" if by else ""
    return (
        f"CREATE TABLE {{t}} (id INT, k {SPARK_TYPES[point['type']]}, region STRING, name STRING, "
        f"amount INT, f FLOAT, st STRUCT<a: INT, b: STRING>) USING iceberg "
        f"{partitioned} TBLPROPERTIES ({listed})"
    )


def _columns(point: Point) -> dict[str, str]:
    kind = point["type"]
    pool = ", ".join(literal(kind, _kept(point, text), spark=True) for text in POOLS[kind])
    size, few = len(POOLS[kind]), max(2, len(POOLS[kind]) // 2)
    # Each batch has some of the values, so that bounds of files differ.
    place = f"INT((id % {few} + id DIV {BATCH} * {max(1, size // 3)}) % {size} + 1)"
    return {
        "id": "INT(id)",
        "k": f"IF(id % 17 = 5, NULL, element_at(array({pool}), {place}))",
        "region": "concat('r', id % 3)",
        "name": "IF(id % 13 = 0, NULL, concat('name ', id % 23))",
        "amount": "INT(id * 3 - 150)",
        "f": "CASE id % 11 WHEN 0 THEN FLOAT('NaN') WHEN 1 THEN FLOAT('Infinity') "
        "WHEN 2 THEN FLOAT('-Infinity') WHEN 3 THEN NULL WHEN 4 THEN FLOAT('-0.0') "
        "ELSE FLOAT(id * 0.25 - 20) END",
        "st": "IF(id % 19 = 0, NULL, named_struct('a', INT(id), 'b', concat('北 ', id)))",
    }


def _kept(point: Point, text: str) -> str:
    """A value that the format gives back: ORC's library moves fractions of the last second before 1970."""
    return text.replace("23:59:59.999999", "23:59:59") if point["format"] == "orc" else text


def _insert(made: Recipe, batch: int, branch: str = "") -> str:
    start, rows = batch * BATCH, BATCH if batch < 3 else 10
    return (
        f"INSERT INTO {{t}}{branch} ({', '.join(made.columns)}) SELECT {', '.join(made.columns.values())} "
        f"FROM range({start}, {start + rows}, 1, 2)"
    )


def _set(key: str, value: str) -> str:
    return f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{key}' = '{value}')"


def _change_partitioning(made: Recipe, point: Point) -> None:
    fields, spec = partition_fields(point), point["spec"]
    if spec == "added":
        made.steps.append("ALTER TABLE {t} ADD PARTITION FIELD bucket(3, id)")
    elif spec == "removed":
        made.steps.append(f"ALTER TABLE {{t}} DROP PARTITION FIELD {fields[0]}")
    elif spec == "replaced":
        other = _FINER.get(fields[0], "region" if "region" not in fields else "bucket(3, id)")
        made.steps.append(f"ALTER TABLE {{t}} REPLACE PARTITION FIELD {fields[0]} WITH {other}")
    elif spec == "source renamed":
        made.steps.append("ALTER TABLE {t} RENAME COLUMN k TO key")
        made.columns = {("key" if name == "k" else name): said for name, said in made.columns.items()}
        made.key = "key"
    elif spec == "source promoted":
        made.steps.append(f"ALTER TABLE {{t}} ALTER COLUMN k TYPE {_WIDER[point['type']]}")


def _upgrade_for(made: Recipe, point: Point, *, before_deletes: bool) -> None:
    """Version 3 comes before deletes when these are vectors, and after them else."""
    if point["version"] == "upgraded" and before_deletes == (point["deletes"] == "vectors"):
        made.steps.append(_set("format-version", "3"))


def _delete(made: Recipe, point: Point, every: int, rest: int) -> None:
    deletes = point["deletes"]
    if deletes == "equality":
        made.steps.append(lambda spark, table: delete_by_ids(spark, table, range(rest, 3 * BATCH, every)))
    elif deletes != "none":
        made.steps.append(f"DELETE FROM {{t}} WHERE id % {every} = {rest}")
    elif every == 11 and point["version"] == "1":
        # Files are rewritten: manifests hold entries of deleted files.
        made.steps.append("DELETE FROM {t} WHERE id % 50 = 7")


def _change_schema(made: Recipe, point: Point) -> None:
    change = point["schema"]
    made.steps.extend(f"ALTER TABLE {{t}} {said}" for said in _SCHEMA[change])
    if change == "add":
        made.columns["added"] = "concat('added ', id)"
    elif change == "drop":
        del made.columns["name"]
        made.name = None
    elif change == "rename":
        made.columns["title"] = made.columns.pop("name")
        made.name = "title"
    elif change == "promote":
        made.columns["amount"] = "IF(id = 222, 9000000000, id * 3 - 150)"
    elif change == "nested":
        made.columns["st"] = "IF(id % 19 = 0, NULL, named_struct('bb', concat('北 ', id), 'c', id * 0.5D))"


_SCHEMA = {
    "none": (),
    "add": ("ADD COLUMN added STRING AFTER id",),
    "drop": ("DROP COLUMN name",),
    "rename": ("RENAME COLUMN name TO title",),
    "reorder": ("ALTER COLUMN amount FIRST", "ALTER COLUMN region AFTER f"),
    "promote": ("ALTER COLUMN amount TYPE BIGINT", "ALTER COLUMN f TYPE DOUBLE"),
    "nested": ("ADD COLUMN st.c DOUBLE", "RENAME COLUMN st.b TO bb", "DROP COLUMN st.a"),
}
_HISTORY: dict[str, tuple[str, ...]] = {
    "plain": (),
    "compacted": (
        "CALL ice.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))",
    ),
    "emptied": ("DELETE FROM {t}",),
    "expired": (
        "CALL ice.system.expire_snapshots(table => '{name}', older_than => now(), retain_last => 1)",
    ),
}
