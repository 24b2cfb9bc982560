"""Rows that are deleted by values: against a brute force that compares each row with each deleted one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError
from lakehouse.iceberg.planning.tasks import ScanTask
from lakehouse.io import measure
from tests.kit.iceberg_files import MadeTable, field

_FIELDS = [field(1, "id", "long"), field(2, "name", "string"), field(3, "x", "double")]
_VALUE = st.tuples(
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, "", "a", "b"]),
    st.sampled_from([None, math.nan, 0.0, -0.0, 1.5]),
)


def _rows(values: list[tuple[Any, ...]]) -> pa.Table:
    kinds = (pa.int64(), pa.string(), pa.float64())
    columns = list(zip(*values, strict=True)) or [(), (), ()]
    return pa.table(
        {
            name: pa.array(column, kind)
            for name, column, kind in zip(("id", "name", "x"), columns, kinds, strict=True)
        }
    )


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal as Iceberg compares them."""
    if isinstance(one, float) and isinstance(other, float):
        both = math.isnan(one) and math.isnan(other)
        return both or (one == other and math.copysign(1, one) == math.copysign(1, other))
    return bool(one == other)


@settings(max_examples=40, deadline=None)
@given(
    files=st.lists(st.tuples(st.lists(_VALUE, max_size=12), st.integers(1, 4)), min_size=1, max_size=3),
    deletes=st.lists(
        st.tuples(
            st.lists(_VALUE, min_size=1, max_size=5),
            st.integers(1, 5),
            st.lists(st.sampled_from([1, 2, 3]), min_size=1, unique=True),
        ),
        max_size=4,
    ),
)
async def test_deleted_values_hide_rows_of_earlier_commits(
    files: list[tuple[list[Any], int]], deletes: list[tuple[list[Any], int, list[int]]]
) -> None:
    """A row goes when a later commit deleted its values in the columns that this commit compared."""
    table = MadeTable(_FIELDS)
    made = []
    for values, sequence, ids in deletes:
        rows = _rows(values).select([number - 1 for number in ids])
        made.append(await table.equality(rows, ids, sequence=sequence))
    tasks: list[ScanTask] = []
    expected = []
    for values, sequence in files:
        task = await table.data(_rows(values), [1, 2, 3], sequence=sequence)
        later = tuple(delete for delete in made if delete.sequence > sequence)
        tasks.append(replace(task, deletes=later))
        expected += [
            row
            for row in values
            if not any(
                at > sequence and all(_same(row[number - 1], gone[number - 1]) for number in ids)
                for gones, at, ids in deletes
                for gone in gones
            )
        ]
    found = [tuple(row.values()) for row in await table.rows(*tasks)]
    assert repr(found) == repr(expected)
    assert await table.scan(tasks, columns=()).count() == len(expected)


async def test_delete_files_of_many_commits_are_read_once() -> None:
    """Three data files of three commits and five delete files are eight requests and one more for rows."""
    table = MadeTable(_FIELDS)
    deletes = [
        await table.equality(pa.table({"id": [number]}), [1], sequence=number) for number in range(2, 7)
    ]
    tasks = []
    for sequence in (1, 3, 5):
        task = await table.data(_rows([(n, "", 0.0) for n in range(10)]), [1, 2, 3], sequence=sequence)
        later = tuple(delete for delete in deletes if delete.sequence > sequence)
        tasks.append(replace(task, deletes=later))
    with measure() as cost:
        found = [row["id"] for row in await table.rows(*tasks)]
    assert found == [0, 1, 7, 8, 9, 0, 1, 2, 3, 7, 8, 9, 0, 1, 2, 3, 4, 5, 7, 8, 9]
    assert cost.by_kind() == {"get": 8}


async def test_a_dropped_column_still_deletes() -> None:
    """A delete compares the columns that it was written with, also where the schema lost one."""
    table = MadeTable(_FIELDS[1:], older=[_FIELDS])
    task = await table.data(_rows([(1, "a", 0.0), (2, "b", 0.0)]), [1, 2, 3])
    delete = await table.equality(pa.table({"id": [1]}), [1])
    assert await table.left(task, delete) == [{"name": "b", "x": 0.0}]


async def test_a_promoted_column_is_compared_by_value() -> None:
    """Files from before a promotion, and deletes from before it, are compared in the wider type."""
    table = MadeTable([field(1, "id", "long")], older=[[field(1, "id", "int")]])
    old = await table.data(pa.table({"id": pa.array([1, 2], pa.int32())}), [1])
    new = await table.data(pa.table({"id": [2, 2**40]}), [1])
    narrow = await table.equality(pa.table({"id": pa.array([2], pa.int32())}), [1])
    wide = await table.equality(pa.table({"id": [2**40, 1]}), [1])
    assert await table.left(old, narrow, wide) == []
    assert await table.left(new, narrow) == [{"id": 2**40}]


async def test_a_column_that_a_file_lacks_is_null_there() -> None:
    """A delete of nulls hides rows of files that are older than the column, one of values does not."""
    table = MadeTable(_FIELDS, older=[_FIELDS[:1]])
    task = await table.data(pa.table({"id": [1, 2]}), [1])
    nulls = await table.equality(pa.table({"name": pa.array([None], pa.string())}), [2])
    texts = await table.equality(pa.table({"name": ["a"]}), [2])
    assert await table.left(task, nulls) == []
    assert len(await table.left(task, texts)) == 2


async def test_a_default_is_compared_where_a_file_lacks_the_column() -> None:
    """Rows that show an initial default are deleted by it."""
    table = MadeTable([*_FIELDS[:1], field(2, "name", "string", **{"initial-default": "a"})])
    task = await table.data(pa.table({"id": [1]}), [1])
    assert await table.left(task, await table.equality(pa.table({"name": ["a"]}), [2])) == []


async def test_fields_inside_structs_are_compared() -> None:
    """Two fields of one struct, by which a struct that is null is like one of nulls."""
    kind = {"type": "struct", "fields": [field(2, "a", "int", required=True), field(3, "b", "string")]}
    table = MadeTable([field(1, "s", kind)])
    parts = [
        pa.field("a", pa.int32(), metadata={"PARQUET:field_id": "2"}),
        pa.field("b", pa.string(), metadata={"PARQUET:field_id": "3"}),
    ]
    values = [{"a": 1, "b": "x"}, {"a": 1, "b": None}, None, {"a": 2, "b": "x"}]
    task = await table.data(pa.table({"s": pa.array(values, pa.struct(parts))}), [1])
    gone = pa.table({"s": pa.array([{"a": 1, "b": None}, {"a": 2, "b": "x"}, None], pa.struct(parts))})
    delete = await table.equality(gone, [1], equality_ids=(2, 3))
    assert await table.left(task, delete) == [{"s": {"a": 1, "b": "x"}}]


async def test_deletes_of_one_partition_leave_others() -> None:
    """Delete files of a partitioned spec count for the partition of the task that has them."""
    spec = [{"name": "name", "transform": "identity", "source-id": 2, "field-id": 1000}]
    table = MadeTable(_FIELDS, specs={0: spec})
    tasks = []
    for name in ("a", "b"):
        task = await table.data(_rows([(1, name, 0.0), (2, name, 0.0)]), [1, 2, 3], partition=(name,))
        delete = await table.equality(pa.table({"id": [1 if name == "a" else 2]}), [1])
        tasks.append(replace(task, deletes=(delete,)))
    assert [(row["id"], row["name"]) for row in await table.rows(*tasks)] == [(2, "a"), (1, "b")]


@pytest.mark.parametrize(
    ("ids", "message"),
    [((), "has no equality ids"), ((9,), "compares field 9"), ((4,), "compares field 4"), ((5,), "field 5")],
)
async def test_fields_that_nobody_knows_are_corruption(ids: tuple[int, ...], message: str) -> None:
    """A delete file compares one field at least, and fields of one value that a schema of the table has."""
    items = {"type": "list", "element-id": 5, "element-required": False, "element": "int"}
    table = MadeTable([*_FIELDS, field(4, "l", items)])
    task = await table.data(_rows([(1, "a", 0.0)]), [1, 2, 3])
    delete = await table.equality(pa.table({"id": [1]}), [1], equality_ids=ids)
    with pytest.raises(CorruptionError, match=message) as caught:
        await table.left(task, delete, columns=["id"])
    assert caught.value.context["key"] == delete.path
