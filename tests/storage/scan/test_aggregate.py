"""Counts, least and greatest values: the same as of all rows, and read from no row where entries tell."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable
from typing import Any

import anyio
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.storage.table import Table
from tests.kit.worlds import NAME, process, restored

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "day": pa.date32(),
        "amount": pa.float64(),
        "note": pa.string(),
        "price": pa.decimal128(9, 2),
        "flag": pa.bool_(),
        "tags": pa.list_(pa.string()),
    }
)
DAYS = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]
WANTED: dict[str, str | tuple[str, str]] = {
    "n": "count",
    **{f"{kind}_{name}": (kind, name) for kind in ("min", "max") for name in SCHEMA.names if name != "tags"},
    **{f"count_{name}": ("count", name) for name in SCHEMA.names},
}


async def made(**how: Any) -> Table:
    """An empty table that compacts when it is told."""
    lake = process(await restored({}))
    await lake.create_database("db")
    options = {"compaction.auto": "off", **how.pop("options", {})}
    return await lake.create_table(NAME, SCHEMA, options=options, **how)


def row(number: int, **other: Any) -> dict[str, Any]:
    """A row of that id."""
    return {
        "id": number,
        "day": DAYS[number % 2],
        "amount": number / 2,
        "note": f"n{number}",
        "price": decimal.Decimal(number),
        "flag": number % 3 == 0,
        "tags": None,
        **other,
    }


def plainly(rows: list[dict[str, Any]], group_by: str | None) -> list[dict[str, Any]]:
    """The answers, worked out row by row."""
    groups: dict[Any, list[dict[str, Any]]] = {} if group_by else {None: []}
    for one in rows:
        groups.setdefault(one[group_by] if group_by else None, []).append(one)
    found = []
    for key in sorted(groups, key=str):
        answer: dict[str, Any] = {} if group_by is None else {group_by: key}
        for name, what in WANTED.items():
            kind, column = (what, "id") if isinstance(what, str) else what
            values = [one[column] for one in groups[key] if one[column] is not None]
            if kind == "count":
                answer[name] = len(values)
            else:
                pick: Callable[..., Any] = min if kind == "min" else max
                answer[name] = pick(values, key=_order) if values else None
        found.append(answer)
    return found


def _order(value: Any) -> Any:
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> bool:
    """Whether the answers are equal, NaN being equal to itself."""
    return [list(map(str, one.values())) for one in found] == [list(map(str, one.values())) for one in wanted]


async def requests(table: Table, **scan: Any) -> int:
    """How many data files are opened to answer everything."""
    scanned = table.scan(**scan)
    await scanned.aggregate(WANTED, group_by="day")
    return scanned.report.pieces


_ROWS = st.lists(
    st.builds(
        row,
        st.integers(0, 30),
        amount=st.sampled_from([None, 1.5, -2.0, math.nan, math.inf]),
        note=st.sampled_from([None, "", "short", "a text that is longer than bounds are", "ä" * 20]),
        price=st.sampled_from([None, decimal.Decimal("-1.25"), decimal.Decimal("9999999.99")]),
        flag=st.sampled_from([None, True, False]),
        tags=st.sampled_from([None, [], ["x"]]),
    ),
    min_size=1,
    max_size=6,
)
_WHERE: dict[str | None, Callable[[dict[str, Any]], bool]] = {
    None: lambda one: True,
    "day = date '2026-01-01'": lambda one: one["day"] == DAYS[0],
    "id < 9": lambda one: one["id"] < 9,
    "amount > 0": lambda one: one["amount"] is not None and (one["amount"] > 0 or math.isnan(one["amount"])),
}


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("append"), _ROWS),
            st.tuples(st.sampled_from(["compact", "delete", "flush"]), st.just([])),
        ),
        max_size=6,
    ),
    how=st.sampled_from(
        [
            {},
            {"partition_by": "day"},
            {"primary_key": "id", "bucket": 2},
            {"primary_key": ("day", "id"), "partition_by": "day"},
            {"primary_key": "id", "partition_by": "day"},
            {"primary_key": "id", "options": {"merge_engine": "partial-update"}},
            {"primary_key": "id", "options": {"file.format.level0": "sst"}},
        ]
    ),
    where=st.sampled_from(list(_WHERE)),
)
def test_the_same_as_of_all_rows(
    steps: list[tuple[str, list[dict[str, Any]]]], how: dict[str, Any], where: str | None
) -> None:
    """PartialAggregates are those of all rows, whatever was written, deleted and compacted."""

    async def check() -> None:
        table = await made(**how)
        for what, rows in steps:
            if what == "append":
                await table.append(rows)
            elif what == "delete":
                await table.delete("id > 3 and id < 8")
            else:
                await table.compact(full=what == "compact")
        rows = [one for one in await table.scan().to_pylist() if _WHERE[where](one)]
        assert same((await table.scan(where).aggregate(WANTED)).to_pylist(), plainly(rows, None))
        if how.get("partition_by"):
            found = (await table.scan(where).aggregate(WANTED, group_by="day")).to_pylist()
            assert same(found, plainly(rows, "day"))

    anyio.run(check)


async def test_nothing_is_read_of_compacted_data() -> None:
    """Where every merge unit has one run, no file is opened; with several runs the files that overlap are."""
    table = await made(primary_key=("day", "id"), partition_by="day")
    await table.append([row(number) for number in range(10)])
    assert await requests(table) == 0
    assert await requests(table, where="day = date '2026-01-01'") == 0
    await table.upsert([row(2), row(4)])
    assert await requests(table) > 0
    await table.compact(full=True)
    assert await requests(table) == 0


async def test_cut_bounds_are_no_answer() -> None:
    """A long text is read, since its bounds are not texts that occur; how many there are is known."""
    table = await made()
    text = "a text that is longer than bounds are"
    await table.append([row(1, note=text)])
    scan = table.scan()
    found = (await scan.aggregate({"low": ("min", "note"), "high": ("max", "note")})).to_pylist()
    assert found == [{"low": text, "high": text}]
    assert scan.report.pieces == 1
    scan = table.scan()
    assert (await scan.aggregate({"n": ("count", "note")})).to_pylist() == [{"n": 1}]
    assert scan.report.pieces == 0


async def test_columns_that_came_later() -> None:
    """Of files from before a column, its default counts."""
    table = await made(primary_key="id")
    await table.append([row(1)])
    await table.add_column("extra", "int", default=7)
    await table.append([{**row(2), "extra": 3}])
    found = await table.scan().aggregate({"low": ("min", "extra"), "high": ("max", "extra")})
    assert found.to_pylist() == [{"low": 3, "high": 7}]
    assert found.schema.types == [pa.int32(), pa.int32()]


async def test_old_rows_do_not_count() -> None:
    """Rows whose time to live has passed are in no answer, whatever entries say."""
    options = {"record.ttl_s": 86_400 * 2, "record.time_field": "day"}
    table = await made(primary_key="id", options=options)
    today = dt.datetime.now(dt.UTC).date()
    await table.append([row(1, day=today), row(2, day=dt.date(2001, 1, 1))])
    found = await table.scan().aggregate({"n": "count", "low": ("min", "day")})
    assert found.to_pylist() == [{"n": 1, "low": today}]


async def test_empty_table() -> None:
    """Of no rows, there are none and no values; no group has any."""
    table = await made(partition_by="day")
    found = await table.scan().aggregate({"n": "count", "low": ("min", "price")})
    assert found.to_pylist() == [{"n": 0, "low": None}]
    assert (await table.scan().aggregate({"n": "count"}, group_by="day")).num_rows == 0


@pytest.mark.parametrize(
    ("wanted", "group_by", "words"),
    [
        ({}, (), "nothing is asked"),
        ({"x": "sum"}, (), "'count', column"),
        ({"x": "min"}, (), "an aggregate is"),
        ({"x": ("min", "tags")}, (), "no order"),
        ({"x": ("min", "nope")}, (), "nope"),
        ({"x": "count"}, "note", "partition columns"),
        ({"day": "count"}, "day", "name of a group"),
    ],
)
async def test_mistaken_questions(wanted: dict[str, Any], group_by: Any, words: str) -> None:
    """What cannot be asked is refused in words."""
    table = await made(partition_by="day")
    with pytest.raises(InvalidInputError, match=words):
        await table.scan().aggregate(wanted, group_by=group_by)
    with pytest.raises(InvalidInputError, match="limit"):
        await table.scan(limit=1).aggregate({"n": "count"})
