"""Random histories of tables, published in between: readers of Iceberg tables show what our scan shows."""

from __future__ import annotations

import datetime as dt
import decimal
import tempfile
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lakehouse import iceberg
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from tests.kit.published import iceberg_rows, lake_at, sorted_rows

PLACES = ("none", "in the key", "beside the key")
"""How a table is partitioned."""
SCHEMA = pa.schema(
    {
        "id": pa.int32(),
        "part": pa.string(),
        "n": pa.int16(),
        "t": pa.string(),
        "when": pa.timestamp("us"),
        "price": pa.decimal128(9, 2),
        "f": pa.float32(),
        "flag": pa.bool_(),
        "raw": pa.binary(),
        "day": pa.date32(),
        "tags": pa.list_(pa.string()),
        "at": pa.struct({"x": pa.int8(), "y": pa.string()}),
    }
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-(1 << 15), (1 << 15) - 1),
    "t": st.text(max_size=40),
    "when": st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)),
    "price": st.decimals(-1000, 1000, places=2).map(decimal.Decimal),
    "f": st.floats(width=32, allow_nan=False),
    "flag": st.booleans(),
    "raw": st.binary(max_size=20),
    "day": st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    "tags": st.lists(st.none() | st.text(max_size=3), max_size=3),
    "at": st.fixed_dictionaries({"x": st.none() | st.integers(-9, 9), "y": st.none() | st.text(max_size=3)}),
}
ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(-5, 20),
        "part": st.sampled_from(["a", "b=/", "é"]),
        **{name: st.none() | values for name, values in VALUES.items()},
    }
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), st.lists(ROWS, min_size=1, max_size=12)),
        st.tuples(st.just("delete"), st.integers(-5, 20)),
        st.tuples(st.just("compact"), st.booleans()),
        st.tuples(st.just("publish"), st.none()),
        st.tuples(st.just("widen"), st.none()),
        st.tuples(st.just("rename"), st.none()),
    ),
    max_size=8,
)


async def made(lake: Lake, partitions: str, version: int) -> Table:
    """An empty table."""
    await lake.create_database("db")
    key = ["id", "part"] if partitions == "in the key" else ["id"]
    return await lake.create_table(
        "db.t",
        SCHEMA,
        primary_key=key,
        partition_by=[] if partitions == "none" else ["part"],
        bucket=2,
        options={"iceberg.format_version": version, "compaction.auto": "off"},
    )


async def step(table: Table, what: str, value: Any) -> None:
    """One step of a history."""
    names = [field.name for field in (await table.schema()).fields]
    match what:
        case "upsert":
            renamed = [{("text" if key == "t" else key): one for key, one in row.items()} for row in value]
            await table.upsert(renamed if "text" in names else value)
        case "delete":
            await table.delete(f"id = {value}")
        case "compact":
            await table.compact(full=value)
        case "publish":
            await table.publish_iceberg()
        case "widen":
            await table.widen_column("id", "bigint")
        case "rename" if "t" in names:
            await table.rename_column("t", "text")


async def judged(partitions: str, version: int, steps: list[tuple[str, Any]]) -> None:
    """Runs a history and judges what is published at its end."""
    with tempfile.TemporaryDirectory() as place:
        async with lake_at(Path(place)) as lake:
            table = await made(lake, partitions, version)
            for what, value in steps:
                await step(table, what, value)
            first = await table.publish_iceberg()
            rows = sorted_rows(await table.scan().to_arrow())
            if version == 3:
                # Vectors hide what is not the newest row, so nothing has to wait for a compaction.
                assert not first.lag
                assert iceberg_rows(first.metadata) == rows
            await table.compact(full=True)
            report = await table.publish_iceberg()
            assert (bool(report.lag), report.rows) == (False, len(rows))
            assert iceberg_rows(report.metadata) == rows
            async with await iceberg.open(report.metadata) as opened:
                assert sorted_rows(await opened.scan().to_arrow()) == rows
            some = sorted_rows(await table.scan("id >= 5 and n < 100").to_arrow())
            assert iceberg_rows(report.metadata, where="id >= 5 and n < 100") == some


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("partitions", PLACES)
@settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(steps=STEPS)
def test_published_rows_are_those_of_our_scan(
    partitions: str, version: int, steps: list[tuple[str, Any]]
) -> None:
    """Whatever was written, deleted, altered and compacted: a compacted table reads alike by both."""
    anyio.run(judged, partitions, version, steps)
