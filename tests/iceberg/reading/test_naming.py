"""Files without field ids, whose columns a name mapping finds."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import CorruptionError, InvalidInputError
from tests.kit.iceberg_files import MadeTable, field

_INNER = {"type": "struct", "fields": [field(4, "x", "long"), field(5, "y", "long")]}
_LIST = {"type": "list", "element-id": 7, "element-required": False, "element": _INNER}
_FIELDS = [field(1, "id", "long"), field(2, "name", "string"), field(3, "s", _INNER)]
_MAPPING = [
    {"field-id": 1, "names": ["id", "ID"]},
    {"field-id": 2, "names": ["old_name", "name"]},
    {"field-id": 3, "names": ["s"], "fields": [{"field-id": 4, "names": ["x", "ex"]}]},
    {"names": ["of no field"]},
    {"field-id": 77, "names": ["dropped"]},
]


def _table(mapping: Any, fields: Any = _FIELDS) -> MadeTable:
    text = mapping if isinstance(mapping, str) else json.dumps(mapping)
    return MadeTable(fields, properties={"schema.name-mapping.default": text})


async def test_columns_are_found_under_all_their_names() -> None:
    """Each file may have another name of a column; inside structs too, and what has no name there is null."""
    table = _table(_MAPPING)
    one = await table.data(pa.table({"ID": [1], "old_name": ["a"], "s": [{"ex": 5, "y": 6}]}))
    two = await table.data(pa.table({"id": [2], "name": ["b"], "dropped": [0], "s": [{"x": 7}]}))
    assert await table.rows(one, two) == [
        {"id": 1, "name": "a", "s": {"x": 5, "y": None}},
        {"id": 2, "name": "b", "s": {"x": 7, "y": None}},
    ]


async def test_elements_are_found_by_place() -> None:
    """A list's element needs no name, the fields inside it do."""
    inner = [{"field-id": 7, "names": ["element"], "fields": [{"field-id": 5, "names": ["why"]}]}]
    table = _table([{"field-id": 6, "names": ["l"], "fields": inner}], [field(6, "l", _LIST)])
    task = await table.data(pa.table({"l": [[{"why": 3}], None]}))
    assert await table.rows(task) == [{"l": [{"x": None, "y": 3}]}, {"l": None}]


async def test_ids_in_a_file_win_over_names() -> None:
    """A file that has field ids is not asked for names."""
    table = _table(_MAPPING)
    task = await table.data(pa.table({"name": [1], "id": ["a"]}), [1, 2])
    assert await table.rows(task, columns=["id", "name"]) == [{"id": 1, "name": "a"}]


async def test_without_a_mapping_such_files_are_refused() -> None:
    """Names alone say nothing, because columns may have been renamed."""
    table = MadeTable(_FIELDS)
    task = await table.data(pa.table({"id": [1]}))
    with pytest.raises(InvalidInputError, match=r"no field ids.*give the table a name mapping"):
        await table.rows(task)


async def test_timestamps_of_files_that_spark_wrote_before_are_read() -> None:
    """Tables that were migrated have timestamps of 96 bits under names."""
    mapping = [{"field-id": 1, "names": ["at"]}]
    table = _table(mapping, [field(1, "at", "timestamptz")])
    moments = [dt.datetime(2024, 1, 1, 8), dt.datetime(1500, 1, 1)]
    rows = pa.table({"at": pa.array(moments, pa.timestamp("us"))})
    task = await table.data_as(rows, None, {"use_deprecated_int96_timestamps": True})
    assert await table.rows(task, where="at > '2024-01-01T07:59:59Z'") == [
        {"at": dt.datetime(2024, 1, 1, 8, tzinfo=dt.UTC)}
    ]


@pytest.mark.parametrize(
    "mapping",
    ["{", "5", '[{"field-id": 1}]', '[{"field-id": "1", "names": []}]', '[{"field-id": 1, "names": 5}]'],
)
async def test_a_broken_mapping_is_corruption(mapping: str) -> None:
    """A property that is no mapping is an error that names it."""
    with pytest.raises(CorruptionError, match=r"schema\.name-mapping\.default"):
        _table(mapping).scan([])
