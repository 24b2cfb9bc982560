"""Makes a table for each point of the axes, with Spark's answers beside it, by the peers' Python."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.interop.iceberg.answers import answer, metadata_file
from tests.interop.iceberg.axes import Point, points
from tests.interop.iceberg.recipes import recipe
from tests.interop.iceberg.spark_session import CATALOG, arguments, fresh, session, version_of
from tests.interop.iceberg.values import conditions, sql

__all__ = ["name_of"]

_ABREAST = 3
"""Tables made at once: most of a statement is work of the driver."""


def name_of(number: int) -> str:
    """A table's name."""
    return f"t{number:03d}"


def make(spark: Any, warehouse: Path, number: int, point: Point) -> None:
    """Makes a table, and writes Spark's answers into its directory."""
    mine, name, began = fresh(spark, point["zone"]), name_of(number), time.monotonic()
    table, made = f"{CATALOG}.db.{name}", recipe(point)
    for step in [made.create, *made.steps]:
        if callable(step):
            step(mine, table)
        else:
            mine.sql(step.format(t=table, name=f"db.{name}")).collect()
    asked = conditions(number, point["type"], made.key, made.name)
    texts = [sql(one, spark=True) for one in asked]
    expected = {
        "point": point,
        "metadata": metadata_file(warehouse / "db" / name),
        "conditions": [{"where": sql(one, spark=False), "tree": one} for one in asked],
        "current": answer(mine, table, texts),
        "versions": _versions(mine, table, texts if point["history"] == "emptied" else ()),
        "seconds": 0.0,
    }
    expected["seconds"] = round(time.monotonic() - began, 2)
    place = warehouse / "db" / name / "expected.json"
    place.write_text(json.dumps(expected, ensure_ascii=False), encoding="utf-8")


def _versions(spark: Any, table: str, asked: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of up to four snapshots, and of tag and branch.

    Args:
        asked: conditions on the last snapshot but one: a table that was emptied answers nothing now.
    """
    history = spark.sql(
        f"SELECT snapshot_id, unix_millis(made_current_at) FROM {table}.history ORDER BY made_current_at"
    ).collect()
    last = len(history) - 1
    made = []
    for place in sorted({0, 1, last // 2, last - 1} & set(range(last))):
        snapshot, when = history[place]
        there = asked if place == last - 1 else ()
        found = answer(spark, table, there, version=f"VERSION AS OF {snapshot}")
        made.append({"snapshot": snapshot, "current_ms": when, **found})
    for name, kind in spark.sql(f"SELECT name, type FROM {table}.refs WHERE name <> 'main'").collect():
        made.append({kind.lower(): name, **answer(spark, table, version=f"VERSION AS OF '{name}'")})
    return made


def main() -> None:
    """Makes all tables; ends with an error that names those that could not be made."""
    given = arguments(__doc__)
    spark, began, failed = session(given.warehouse, given.jars), time.monotonic(), []
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.db")

    def attempt(number: int) -> None:
        try:
            make(spark, given.warehouse, number, points()[number])
        except Exception:
            failed.append(f"{name_of(number)} {points()[number]}: {traceback.format_exc()[-1500:]}")

    with ThreadPoolExecutor(_ABREAST) as threads:
        list(threads.map(attempt, range(len(points()))))
    made = {**version_of(spark), "tables": len(points()), "seconds": round(time.monotonic() - began, 1)}
    spark.stop()
    if failed:
        raise SystemExit("\n".join([*failed, f"{len(failed)} of {len(points())} tables could not be made"]))
    (given.warehouse / "made.json").write_text(json.dumps(made), encoding="utf-8")


if __name__ == "__main__":
    main()
