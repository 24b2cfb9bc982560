"""The small tables of ``tests/data/iceberg``: their statements, and Spark's answers beside them.

Run by the peers' Python; ``python -m tests.interop.iceberg.peer fixtures`` does so.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interop.iceberg.answers import answer, metadata_file
from tests.interop.iceberg.equality_deletes import delete_by_ids
from tests.interop.iceberg.spark_session import CATALOG, arguments, fresh, session, version_of

SHANGHAI = "Asia/Shanghai"
_FAN_OUT = {"write.spark.fanout.enabled": "true", "write.distribution-mode": "none"}
_DELTA = dict.fromkeys(("write.delete.mode", "write.update.mode", "write.merge.mode"), "merge-on-read")


@dataclass(frozen=True, kw_only=True)
class Fixture:
    """A table: how it is made, and what is asked of it."""

    columns: str
    steps: tuple[str | Callable[[Any, str], object], ...]
    """Statements where ``{t}`` is the table, or functions of a session and the table's name."""
    conditions: tuple[tuple[str, str], ...] = ()
    """A condition as our scans take it, and as Spark takes it where that differs (else empty)."""
    partitioned: str = ""
    version: int = 2
    properties: tuple[tuple[str, str], ...] = ()
    zone: str = "UTC"


def _zoned(unit: str, values: str, conditions: tuple[tuple[str, str], ...]) -> Fixture:
    rows = ", ".join(f"({n}, TIMESTAMP '{text}')" for n, text in enumerate(values.split(", "), start=1))
    return Fixture(
        columns="id INT, ts TIMESTAMP",
        partitioned=f"{unit}(ts)",
        zone=SHANGHAI,
        steps=(f"INSERT INTO {{t}} VALUES {rows}, (99, NULL)",),
        conditions=(*conditions, ("ts IS NULL", "")),
    )


def _local(text: str) -> tuple[str, str]:
    """A condition on times of Shanghai, for us with the offset and for Spark in its zone."""
    parts = text.split("'")
    ours = "'".join(f"{part}+08:00" if place % 2 else part for place, part in enumerate(parts))
    return ours, text


FIXTURES: dict[str, Fixture] = {
    "year_zone": _zoned(
        "years",
        "2023-01-01 00:00:00, 2023-01-01 08:00:00, 2023-06-15 12:00:00, 2024-01-01 00:00:00, "
        "2024-01-01 08:00:00, 2024-02-29 12:00:00, 2024-12-31 23:59:59",
        (
            _local("ts >= TIMESTAMP '2024-01-01 00:00:00'"),
            _local("ts < TIMESTAMP '2023-01-01 08:00:00'"),
            _local("ts = TIMESTAMP '2024-12-31 23:59:59'"),
        ),
    ),
    "month_zone": _zoned(
        "months",
        "2024-01-01 00:00:00, 2024-01-15 08:00:00, 2024-01-31 23:59:59, 2024-02-01 00:00:00, "
        "2024-02-10 10:00:00, 2024-02-29 12:00:00, 2024-12-01 00:00:00, 2024-12-31 23:59:59",
        (
            _local("ts >= TIMESTAMP '2024-01-01 00:00:00' AND ts < TIMESTAMP '2024-02-01 00:00:00'"),
            _local("ts >= TIMESTAMP '2024-01-01 00:00:00' AND ts < TIMESTAMP '2024-03-01 00:00:00'"),
            _local("ts = TIMESTAMP '2024-12-31 23:59:59'"),
        ),
    ),
    "day_zone": _zoned(
        "days",
        "2024-01-15 08:00:00, 2024-01-15 12:30:00, 2024-01-15 23:59:59, 2024-01-16 00:00:00, "
        "2024-01-16 08:00:00, 2024-02-29 12:00:00, 2024-12-31 23:59:59",
        (
            _local("ts >= TIMESTAMP '2024-01-15 00:00:00'"),
            _local("ts < TIMESTAMP '2024-01-16 00:00:00'"),
            _local("ts >= TIMESTAMP '2024-01-15 00:00:00' AND ts < TIMESTAMP '2024-01-16 00:00:00'"),
            _local("ts >= TIMESTAMP '2024-01-15 00:00:00' AND ts < TIMESTAMP '2024-01-17 00:00:00'"),
            _local("ts >= TIMESTAMP '2024-01-16 00:00:00'"),
            _local("ts = TIMESTAMP '2024-12-31 23:59:59'"),
            _local("ts IN (TIMESTAMP '2024-12-31 23:59:59', TIMESTAMP '2024-02-29 12:00:00')"),
            _local("ts <> TIMESTAMP '2024-12-31 23:59:59'"),
        ),
    ),
    "hour_zone": _zoned(
        "hours",
        "2024-01-15 10:00:00, 2024-01-15 10:15:00, 2024-01-15 10:59:59, 2024-01-15 11:00:00, "
        "2024-01-15 11:30:00, 2024-01-15 23:00:00, 2024-01-15 23:59:59, 2024-01-16 00:00:00",
        (
            _local("ts < TIMESTAMP '2024-01-15 11:00:00'"),
            _local("ts BETWEEN TIMESTAMP '2024-01-15 11:00:00' AND TIMESTAMP '2024-01-15 23:00:00'"),
            _local("ts > TIMESTAMP '2024-01-15 23:59:59'"),
        ),
    ),
    "v1": Fixture(
        columns="id INT, city STRING, amount DECIMAL(9, 2)",
        partitioned="city, truncate(10, amount)",
        version=1,
        steps=(
            "INSERT INTO {t} VALUES (1, 'Köln', 1.5), (2, 'Köln', -3.25), (3, '北京', 10), (4, NULL, NULL)",
            "DELETE FROM {t} WHERE id = 2",
            # A version 1 table keeps the field, with the transform void.
            "ALTER TABLE {t} DROP PARTITION FIELD truncate(10, amount)",
            "INSERT INTO {t} VALUES (5, 'Köln', 99.99), (6, '', 20.00)",
        ),
        conditions=(
            ("city = 'Köln'", ""),
            ("amount >= 10", ""),
            ("city > 'K' AND amount < 50", ""),
            ("city IS NULL", ""),
            ("amount BETWEEN 20 AND 100", ""),
        ),
    ),
    "position_deletes": Fixture(
        columns="id INT, k INT, name STRING",
        partitioned="bucket(4, k)",
        properties=(*_DELTA.items(), ("write.delete.granularity", "file")),
        steps=(
            "INSERT INTO {t} SELECT INT(id), INT(id % 10), concat('name ', id) FROM range(40)",
            "INSERT INTO {t} SELECT INT(id), INT(id % 10), NULL FROM range(40, 80)",
            "DELETE FROM {t} WHERE id % 7 = 3",
            "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.granularity' = 'partition')",
            "DELETE FROM {t} WHERE id % 11 = 5",
            "INSERT INTO {t} VALUES (101, 3, 'late'), (102, NULL, 'no key')",
            "UPDATE {t} SET name = 'changed' WHERE id IN (1, 41)",
        ),
        conditions=(
            ("k = 3", ""),
            ("k IN (2, 7)", ""),
            ("name = 'changed'", ""),
            ("name IS NULL", ""),
            ("id > 70", ""),
            ("k IS NULL", ""),
        ),
    ),
    "vectors": Fixture(
        columns="id INT, k INT, name STRING",
        partitioned="bucket(2, k)",
        version=3,
        properties=tuple(_DELTA.items()),
        steps=(
            "INSERT INTO {t} SELECT INT(id), INT(id % 10), concat('name ', id) FROM range(60)",
            "INSERT INTO {t} SELECT INT(id), INT(id % 10), NULL FROM range(60, 90)",
            "DELETE FROM {t} WHERE id % 7 = 3",
            # A file's second vector holds what its first one held.
            "DELETE FROM {t} WHERE id % 5 = 4",
            "UPDATE {t} SET name = 'changed' WHERE id IN (1, 61)",
        ),
        conditions=(("k = 3", ""), ("name = 'changed'", ""), ("id BETWEEN 20 AND 30", ""), ("k > 7", "")),
    ),
    "equality_deletes": Fixture(
        columns="id INT, k INT, name STRING",
        partitioned="k",
        steps=(
            "INSERT INTO {t} SELECT INT(id), INT(id % 3), concat('old ', id) FROM range(30)",
            lambda spark, table: delete_by_ids(spark, table, range(0, 30, 4)),
            # Of a later commit: the deletes do not hide it.
            "INSERT INTO {t} VALUES (4, 1, 'new 4'), (8, 2, 'new 8')",
        ),
        conditions=(("k = 1", ""), ("id = 8", ""), ("name > 'old 5'", "")),
    ),
    "partition_evolution": Fixture(
        columns="id INT, day DATE, code STRING",
        steps=(
            "INSERT INTO {t} VALUES (1, DATE '1969-12-31', 'abc'), (2, DATE '2024-01-15', NULL)",
            "ALTER TABLE {t} ADD PARTITION FIELD months(day)",
            "INSERT INTO {t} VALUES (3, DATE'1969-12-31', 'abd'), (4, DATE'2024-01-15', 'ab'), (5, NULL, '')",
            "ALTER TABLE {t} REPLACE PARTITION FIELD months(day) WITH days(day)",
            "ALTER TABLE {t} ADD PARTITION FIELD truncate(2, code)",
            (
                "INSERT INTO {t} VALUES (6, DATE '1970-01-01', 'abcdef'), (7, DATE '2024-01-15', 'üüü'), "
                "(8, NULL, NULL)"
            ),
            "ALTER TABLE {t} DROP PARTITION FIELD day_day",
            "ALTER TABLE {t} RENAME COLUMN code TO label",
            "INSERT INTO {t} VALUES (9, DATE '2024-02-29', 'abx'), (10, DATE '2024-01-16', 'zzz')",
        ),
        conditions=(
            ("day = DATE '2024-01-15'", ""),
            ("day < DATE '1970-01-01'", ""),
            ("label LIKE 'ab%'", ""),
            ("label < 'abc'", ""),
            ("day IS NULL", ""),
            ("label = 'zzz' AND day > DATE '2024-01-01'", ""),
        ),
    ),
    "schema_evolution": Fixture(
        columns="id INT, a INT, b STRING, f FLOAT, d DECIMAL(5, 2), s STRUCT<x: INT, y: STRING>, "
        "l ARRAY<STRUCT<p: INT>>, m MAP<STRING, STRUCT<q: INT>>",
        steps=(
            (
                "INSERT INTO {t} VALUES (1, 10, 'one', 1.5, 1.25, named_struct('x', 1, 'y', 'why'), "
                "array(named_struct('p', 1)), map('k', named_struct('q', 1))), "
                "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
            ),
            "ALTER TABLE {t} ALTER COLUMN a TYPE BIGINT",
            "ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE",
            "ALTER TABLE {t} ALTER COLUMN d TYPE DECIMAL(12, 2)",
            "ALTER TABLE {t} ADD COLUMN added STRING AFTER a",
            "ALTER TABLE {t} ADD COLUMN s.z DOUBLE",
            "ALTER TABLE {t} RENAME COLUMN s.y TO why",
            "ALTER TABLE {t} ADD COLUMN l.element.p2 STRING",
            "ALTER TABLE {t} ADD COLUMN m.value.q2 INT",
            "ALTER TABLE {t} DROP COLUMN b",
            "ALTER TABLE {t} ALTER COLUMN f FIRST",
            (
                "INSERT INTO {t} (id, a, added, f, d, s, l, m) VALUES (3, 9000000000, 'new', 1e300, "
                "1234567890.12, named_struct('x', 3, 'why', 'because', 'z', 0.5), "
                "array(named_struct('p', 3, 'p2', 'pp')), "
                "map('k', named_struct('q', 3, 'q2', 4)))"
            ),
            # The name comes back with another field id: older files have no values of it.
            "ALTER TABLE {t} ADD COLUMN b STRING",
            "ALTER TABLE {t} RENAME COLUMN added TO extra",
            "INSERT INTO {t} (id, b, extra) VALUES (4, 'four', 'x')",
        ),
        conditions=(
            ("a > 5", ""),
            ("b IS NULL", ""),
            ("b = 'one'", ""),
            ("extra = 'new'", ""),
            ("f > 1", ""),
            ("d >= 1.25", ""),
            ("s.x = 3", ""),
        ),
    ),
    "time_travel": Fixture(
        columns="id INT, name STRING",
        steps=(
            "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')",
            "ALTER TABLE {t} CREATE TAG `first`",
            "ALTER TABLE {t} CREATE BRANCH `side`",
            "INSERT INTO {t} VALUES (3, 'c')",
            "INSERT INTO {t}.branch_side VALUES (4, 'of the branch')",
            "ALTER TABLE {t} ADD COLUMN more INT",
            "INSERT INTO {t} VALUES (5, 'e', 50)",
            "DELETE FROM {t} WHERE id = 1",
        ),
        conditions=(("more IS NULL", ""), ("name >= 'b'", "")),
    ),
    "avro": Fixture(
        columns="id INT, k DATE, name STRING, amount DECIMAL(9, 2), s STRUCT<x: INT>, l ARRAY<INT>, "
        "m MAP<STRING, INT>",
        partitioned="days(k)",
        properties=(*_DELTA.items(), ("write.format.default", "avro")),
        steps=(
            (
                "INSERT INTO {t} SELECT INT(id), date_add(DATE '1969-12-30', INT(id % 4)), "
                "concat('n', id), CAST(id AS DECIMAL(9, 2)) - 1.25, named_struct('x', INT(id)), "
                "array(1, NULL, INT(id)), map('k', INT(id)) FROM range(20)"
            ),
            "DELETE FROM {t} WHERE id % 6 = 1",
            "ALTER TABLE {t} RENAME COLUMN name TO title",
            "INSERT INTO {t} VALUES (100, NULL, NULL, NULL, NULL, NULL, NULL)",
        ),
        conditions=(
            ("k = DATE '1969-12-31'", ""),
            ("title = 'n4'", ""),
            ("amount < 3", ""),
            ("k IS NULL", ""),
        ),
    ),
    "orc": Fixture(
        columns="id INT, k STRING, ts TIMESTAMP, wall TIMESTAMP_NTZ, b BINARY, s STRUCT<x: INT>, "
        "l ARRAY<INT>",
        partitioned="truncate(1, k)",
        zone=SHANGHAI,
        properties=(*_DELTA.items(), ("write.format.default", "orc")),
        steps=(
            (
                "INSERT INTO {t} SELECT INT(id), element_at(array('ab', 'a', 'ü', NULL), INT(id % 4 + 1)), "
                "timestamp_seconds(id * 86400 - 86401), TIMESTAMP_NTZ '1969-12-31 23:59:58.5', X'00ff', "
                "named_struct('x', INT(id)), array(1, NULL) FROM range(20)"
            ),
            "DELETE FROM {t} WHERE id % 6 = 1",
            "ALTER TABLE {t} ADD COLUMN more BIGINT",
            "INSERT INTO {t} VALUES (100, 'zz', NULL, NULL, NULL, NULL, NULL, 7)",
        ),
        conditions=(("k = 'ab'", ""), ("k < 'b'", ""), ("more = 7", ""), ("ts IS NULL", "")),
    ),
    "upgraded": Fixture(
        columns="id INT, k BIGINT, name STRING",
        partitioned="truncate(10, k)",
        version=1,
        properties=tuple(_DELTA.items()),
        steps=(
            "INSERT INTO {t} SELECT INT(id), id * 2 - 15, concat('v1 ', id) FROM range(20)",
            "ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '2')",
            "INSERT INTO {t} SELECT INT(id), id, concat('v2 ', id) FROM range(20, 30)",
            "DELETE FROM {t} WHERE id % 6 = 2",
            "ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')",
            "INSERT INTO {t} SELECT INT(id), id, concat('v3 ', id) FROM range(30, 40)",
            "DELETE FROM {t} WHERE id % 6 = 3",
        ),
        conditions=(("k < 0", ""), ("k BETWEEN 20 AND 29", ""), ("name > 'v2'", ""), ("k = 11", "")),
    ),
    "types": Fixture(
        columns="id INT, o BOOLEAN, i INT, g BIGINT, f FLOAT, d DOUBLE, small DECIMAL(4, 1), "
        "large DECIMAL(38, 10), day DATE, ts TIMESTAMP, wall TIMESTAMP_NTZ, s STRING, b BINARY, "
        "l ARRAY<ARRAY<INT>>, m MAP<INT, STRING>, n STRUCT<a: STRUCT<b: DATE>>",
        version=3,
        zone=SHANGHAI,
        steps=(
            (
                "INSERT INTO {t} VALUES (1, true, 2147483647, 9223372036854775807, FLOAT('Infinity'), "
                "DOUBLE('NaN'), 999.9, 1234567890123456789012345678.0123456789, DATE '9999-12-31', "
                "TIMESTAMP '2024-01-15 08:00:00.123456', TIMESTAMP_NTZ '2024-01-15 08:00:00.1', '北京 🌍', "
                "unhex('00ff80'), array(array(1, NULL), NULL), map(1, 'one', 2, NULL), "
                "named_struct('a', named_struct('b', DATE '1969-12-31')))"
            ),
            (
                "INSERT INTO {t} VALUES (2, false, -2147483648, -9223372036854775808, FLOAT('NaN'), "
                "DOUBLE('-Infinity'), -999.9, -0.0000000001, DATE '0001-01-01', "
                "TIMESTAMP '1969-12-31 23:59:59.999999', TIMESTAMP_NTZ '1900-01-01 00:00:00', '', unhex(''), "
                "array(), map(), named_struct('a', NULL))"
            ),
            "INSERT INTO {t} (id) VALUES (3)",
        ),
        conditions=(
            ("i > 0", ""),
            ("g < 0", ""),
            ("large < 0", ""),
            ("day < DATE '1970-01-01'", ""),
            ("wall < TIMESTAMP '2000-01-01 00:00:00'", "wall < TIMESTAMP_NTZ '2000-01-01 00:00:00'"),
            ("s = '北京 🌍'", ""),
            ("b = X'00ff80'", ""),
            ("o = true", ""),
            ("d < 0", ""),
        ),
    ),
}


def make(spark: Any, warehouse: Path, name: str) -> dict[str, Any]:
    """Makes a table; what Spark answers about it."""
    fixture, table = FIXTURES[name], f"{CATALOG}.db.{name}"
    mine = fresh(spark, fixture.zone)
    properties = {"format-version": str(fixture.version), **_FAN_OUT, **dict(fixture.properties)}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    by = f"PARTITIONED BY ({fixture.partitioned})" if fixture.partitioned else ""
    mine.sql(f"CREATE TABLE {table} ({fixture.columns}) USING iceberg {by} TBLPROPERTIES ({listed})")
    for step in fixture.steps:
        if callable(step):
            step(mine, table)
        else:
            mine.sql(step.format(t=table))
    found = answer(mine, table, [sparks or ours for ours, sparks in fixture.conditions])
    return {
        "metadata": metadata_file(warehouse / "db" / name),
        "zone": fixture.zone,
        "conditions": [
            {"where": ours, "ids": ids}
            for (ours, _), ids in zip(fixture.conditions, found.pop("ids"), strict=True)
        ],
        "current": found,
        "versions": _versions(mine, table),
        **_lineage(mine, table, properties),
    }


def _versions(spark: Any, table: str) -> list[dict[str, Any]]:
    """Rows of each snapshot, tag and branch."""
    made = []
    for row in spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at").collect():
        found = answer(spark, table, version=f"VERSION AS OF {row[0]}")
        made.append({"snapshot": row[0], "columns": found["columns"], "rows": found["rows"]})
    for row in spark.sql(f"SELECT name, type FROM {table}.refs WHERE name <> 'main' ORDER BY name").collect():
        found = answer(spark, table, version=f"VERSION AS OF '{row[0]}'")
        made.append({row[1].lower(): row[0], "columns": found["columns"], "rows": found["rows"]})
    return made


def _lineage(spark: Any, table: str, properties: dict[str, str]) -> dict[str, Any]:
    """Row ids of a table that is made with them."""
    if properties["format-version"] != "3":
        return {}
    rows = spark.sql(f"SELECT id, _row_id, _last_updated_sequence_number FROM {table} ORDER BY id").collect()
    return {"lineage": [list(row) for row in rows]}


def main() -> None:
    """Makes all tables anew below the directory that is given."""
    given = arguments(__doc__)
    spark = session(given.warehouse, given.jars)
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.db")
    versions = version_of(spark)
    for name in FIXTURES:
        expected = {"made_by": versions, **make(spark, given.warehouse, name)}
        _keep(given.warehouse / "db" / name, given.warehouse / name, expected)
    spark.stop()
    shutil.rmtree(given.warehouse / "db")


def _keep(made: Path, place: Path, expected: dict[str, Any]) -> None:
    """Moves what a reader opens: no checksums of Hadoop, and no metadata file but the newest."""
    newest = made / expected["metadata"]
    for path in [*made.rglob(".*.crc"), *made.glob("metadata/*.metadata.json")]:
        if path != newest:
            path.unlink()
    shutil.move(made, place)
    lines = (f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in expected.items())
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (place / "expected.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
