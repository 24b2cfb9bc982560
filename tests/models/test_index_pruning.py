"""Indexes change no answer: random rows, indexes, conditions and histories, read with and without indexes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.config import Settings
from lakehouse.index.search import rounds as lookup
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from lakehouse.testing import memory_store

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "n": pa.int16(),
        "x": pa.float32(),
        "s": pa.string(),
        "j": pa.string(),
        "b": pa.struct({"c": pa.int8()}),
    }
)
WORDS = ("disk", "Disk", "full", "disk_full", "is", "été", "")
KINDS: dict[str, Any] = {
    "bloom": {"bloom": {"granularity": 3}},
    "inverted": {"inverted": {"segment_row_count": 2}},
    "english": {"fulltext": {"granularity": 3}},
    "cased": {"fulltext": {"granularity": 3, "case_sensitive": True}},
    "chinese": {"fulltext": {"granularity": 3, "analyzer": "Chinese"}},
}
TARGETS: dict[str, tuple[str, ...]] = {
    "n": ("bloom", "inverted"),
    "x": ("bloom", "inverted"),
    "s": ("bloom", "inverted", "english", "cased", "chinese"),
    "n, s": ("bloom", "inverted"),
    "lower(s)": ("bloom", "inverted", "english"),
    "n + 1": ("bloom", "inverted"),
    "j#/a": ("bloom", "inverted", "english"),
    "b.c": ("bloom", "inverted"),
}


def definitions(chosen: set[tuple[str, str]]) -> dict[str, list[Any]]:
    """What is indexed, of one kind of fulltext for each target."""
    found: dict[str, list[Any]] = {}
    for target, kind in sorted(chosen):
        same = [one for one in found.get(target, ()) if set(one) == set(KINDS[kind])]
        if not same:
            found.setdefault(target, []).append(KINDS[kind])
    return found


indexes = st.sets(
    st.sampled_from([(target, kind) for target, kinds in TARGETS.items() for kind in kinds]),
    min_size=8,
).map(definitions)
numbers = st.none() | st.integers(-3, 3)
spoken = st.lists(st.sampled_from(WORDS), max_size=2).map(" ".join)
texts = st.none() | spoken
rows = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 30),
            "n": numbers,
            "x": st.none() | st.sampled_from([0.0, -0.0, 1.5, float("nan"), -2.5]),
            "s": texts,
            "j": st.none() | st.one_of(numbers, texts).map(lambda value: json.dumps({"a": value})),
            "b": st.none() | st.fixed_dictionaries({"c": numbers}),
        }
    ),
    min_size=1,
    max_size=7,
)
quoted = spoken.map("'{}'".format)
# @ stands for the column of text, which may be renamed.
conditions = st.recursive(
    st.one_of(
        st.builds("n {} {}".format, st.sampled_from(["=", "<>", "<", ">="]), st.integers(-4, 4)),
        st.builds("x {} {}".format, st.sampled_from(["=", "<>", "<", ">="]), st.sampled_from([0, 1.5, -2.5])),
        st.builds("@ {} {}".format, st.sampled_from(["=", "<>", "<", ">="]), quoted),
        st.builds("n in ({}, {})".format, st.integers(-4, 4), st.sampled_from(["1", "null"])),
        st.builds("@ like {}".format, st.sampled_from(["'disk%'", "'%full'", "'d_sk'", "''"])),
        st.builds("starts_with(@, {})".format, quoted),
        st.builds("matches(@, {})".format, quoted),
        st.builds("matches(@, '{}')".format, st.sampled_from(WORDS)),
        st.builds("@ = '{}'".format, st.sampled_from(WORDS)),
        st.builds("lower(@) = {}".format, quoted),
        st.builds("matches(lower(@), {})".format, quoted),
        st.builds("n + 1 = {}".format, st.integers(-3, 4)),
        st.builds("j ->> '/a' = '{}'".format, st.integers(-3, 3)),
        st.builds("matches(j ->> '/a', {})".format, quoted),
        st.builds("b.c > {}".format, st.integers(-4, 4)),
        st.sampled_from(["n is null", "@ is not null", "b.c is null", "id < 15", "j ->> '/a' is null"]),
    ),
    lambda some: st.one_of(
        st.builds("({}) and ({})".format, some, some),
        st.builds("({}) or ({})".format, some, some),
        st.builds("not ({})".format, some),
    ),
    max_leaves=3,
)
LAYOUTS: list[dict[str, Any]] = [
    {"primary_key": "id"},
    {"primary_key": "id", "bucket": 2},
    {},
    {"primary_key": "id", "options": {"merge_engine": "partial-update"}},
    {"primary_key": "id", "options": {"merge_engine": "first-row"}},
]
STEPS = ("upsert", "delete", "compact", "rebuild", "add", "drop", "alter", "rename", "widen", "where")


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_indexes_change_no_answer(data: st.DataObject) -> None:
    """Whatever a table went through, every condition selects the same rows with and without indexes."""
    asyncio.run(history(data))


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_indexes_that_are_read_in_places_change_no_answer(data: st.DataObject) -> None:
    """The same holds where filters and lists of terms are read page by page, as large ones are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "_TERM_PAGES_LEAST", 0)
        patch.setattr(lookup, "_PAGES_LEAST", 0)
        asyncio.run(history(data, {"index.search_whole_bytes": 0}))


async def history(data: st.DataObject, bounds: Mapping[str, Any] | None = None) -> None:
    """Some changes of a table, and after each some conditions."""
    store = memory_store()
    lake = Lake(stacked(store), settings=Settings().replace(**(bounds or {})))
    await lake.create_database("db")
    layout = dict(data.draw(st.sampled_from(LAYOUTS), label="layout"))
    options = {"index.min_rows": 1, "parquet.row_group_rows": 128, **layout.pop("options", {})}
    if data.draw(st.booleans(), label="sst"):
        options["file.format.level0"] = "sst"
    table = await lake.create_table(
        "db.t", SCHEMA, indexes=data.draw(indexes, label="indexes"), options=options, **layout
    )
    without = Lake(stacked(store), settings=lake.settings.replace(**{"table.scan_indexes": False}))
    other = await without.table("db.t")
    names = {"s": "s"}
    await table.append(data.draw(rows, label="rows"))
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=6), label="steps"):
        await change(data, table, step, names, has_key="primary_key" in layout)
        for where in data.draw(st.lists(conditions, min_size=6, max_size=9), label="conditions"):
            where = where.replace("@", names["s"])
            scan, plain = table.scan(where), other.scan(where)
            found, expected = await scan.to_pylist(), await plain.to_pylist()
            assert repr(found) == repr(expected), where
            assert await table.scan(where).count() == len(expected)
            assert scan.report.indexes_failed == 0
            assert plain.report.indexes_read == 0


async def change(
    data: st.DataObject, table: Table, step: str, names: dict[str, str], *, has_key: bool
) -> None:
    """One step of a history."""
    schema = await table.schema()
    match step:
        case "upsert":
            some = data.draw(rows, label="more rows")
            await table.append([{names.get(name, name): one for name, one in row.items()} for row in some])
        case "delete" if has_key:
            await table.delete(
                keys=[{"id": one} for one in data.draw(st.sets(st.integers(0, 30), max_size=9))]
            )
        case "where":
            await table.delete(f"{names['s']} = 'disk' and n > 0")
        case "compact":
            await table.compact(full=data.draw(st.booleans()))
        case "rebuild":
            await table.rebuild_indexes(every=data.draw(st.booleans()))
        case "add":
            kind = data.draw(st.sampled_from(["bloom", "inverted"]))
            for target in ("n", "x", names["s"]):
                known = {(one.kind.value, one.target.key) for one in schema.indexes}
                if (kind, str(schema.field(target).id)) not in known:
                    more = {"segment_row_count": 2} if kind == "inverted" else {"granularity": 2}
                    await table.add_index(target, kind, **more)
        case "drop" if schema.indexes:
            found = (await table.indexes()).to_pylist()
            one = data.draw(st.sampled_from(found), label="dropped")
            await table.drop_index(one["target"], one["kind"])
        case "alter":
            for one in schema.indexes:
                if one.kind == "fulltext" and one.target.key == str(schema.field(names["s"]).id):
                    await table.alter_index(names["s"], "fulltext", case_sensitive=not one.case_sensitive)
        case "rename" if names["s"] == "s":
            await table.rename_column("s", "text")
            names["s"] = "text"
        case "widen":
            for column, kind in (("n", "bigint"), ("x", "double"), (("b", "c"), "int")):
                await table.widen_column(column, kind)
