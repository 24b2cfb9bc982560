"""Avro and ORC files of rows."""

from __future__ import annotations

import datetime as dt
import io
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.iceberg.planning.tasks import ScanTask
from lakehouse.io import measure
from tests.kit.iceberg_files import MadeTable, field
from tests.kit.iceberg_spark_tables import spark_table

_FIELDS = [field(1, "id", "long"), field(2, "name", "string")]
_ROWS = pa.table({"id": range(20), "name": [f"n{n}" for n in range(20)]})
_NAMED = {
    "schema.name-mapping.default": '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["name"]}]'
}


async def _orc(table: MadeTable, rows: pa.Table = _ROWS, *, cut: int | None = None) -> ScanTask:
    sink = io.BytesIO()
    orc.write_table(rows, sink)
    data = sink.getvalue()[:cut]
    return ScanTask(path=await table.put(data, "orc"), format="orc", size=len(data), rows=rows.num_rows)


@pytest.mark.parametrize("name", ["avro", "orc"])
async def test_a_file_is_one_request_however_often_it_is_needed(name: str) -> None:
    """Small files stay in the cache: deletes and rows of one need it once."""
    async with spark_table(name) as table:
        scan = await table.scan()
        files = {entry.path for unit in scan.files.units for entry in (file.entry for file in unit.files)}
        source: Any = scan._source
        deletes = {delete.path for task in source._tasks.values() for delete in task.deletes}
        with measure() as cost:
            assert [part async for part in scan.tables()]
        assert cost.by_kind() == {"get": len(files) + len(deletes)}


async def test_columns_of_orc_without_ids_are_found_by_name() -> None:
    """A name mapping serves ORC too; only the columns that are asked for are decoded."""
    table = MadeTable(_FIELDS, properties=_NAMED)
    task = await _orc(table)
    assert await table.rows(task, columns=["name"], where="id = 7") == [{"name": "n7"}]
    vector = (await table.vectors({task.path: [7]}))[task.path]
    assert await table.left(task, vector, where="id in (7, 8)", columns=["id"]) == [{"id": 8}]


async def test_orc_without_ids_and_without_a_mapping_is_refused() -> None:
    """Names alone say nothing."""
    table = MadeTable(_FIELDS)
    with pytest.raises(InvalidInputError, match="no field ids"):
        await table.rows(await _orc(table))


@pytest.mark.parametrize(
    ("change", "message"), [({"size": 5}, "the manifest says 5"), ({"rows": 21}, "the manifest says 21")]
)
async def test_a_file_that_is_not_as_said_is_corruption(change: dict[str, int], message: str) -> None:
    """Another size or another number of rows than the manifest's names the file."""
    table = MadeTable(_FIELDS, properties=_NAMED)
    task = await _orc(table)
    with pytest.raises(CorruptionError, match=message) as caught:
        await table.rows(replace(task, **change))  # type: ignore[arg-type]
    assert caught.value.context["key"] == task.path


@pytest.mark.parametrize("cut", [0, 3, 50, 200])
@pytest.mark.parametrize("kind", ["orc", "avro"])
async def test_damaged_files_are_corruption(cut: int, kind: Any) -> None:
    """The beginning of a file is no file, nor is one of another format."""
    table = MadeTable(_FIELDS, properties=_NAMED)
    task = await _orc(table, cut=cut)
    with pytest.raises(FormatError) as caught:
        await table.rows(replace(task, format=kind))
    assert caught.value.context["key"] == task.path


async def test_another_format_is_refused() -> None:
    """Formats that are not read are named with those that are."""
    table = MadeTable(_FIELDS)
    task = await table.data(_ROWS, [1, 2])
    with pytest.raises(InvalidInputError, match="is of format vortex: parquet, avro and orc are read"):
        await table.rows(replace(task, format="vortex"))


async def test_orc_of_far_years_is_refused() -> None:
    """Timestamps that do not fit into nanoseconds are an error, and never other moments."""
    mapping = {"schema.name-mapping.default": '[{"field-id": 1, "names": ["t"]}]'}
    table = MadeTable([field(1, "t", "timestamp")], properties=mapping)
    rows = pa.table({"t": pa.array([dt.datetime(1, 1, 1)], pa.timestamp("us"))})
    with pytest.raises(InvalidInputError, match="outside of the years 1678 to 2261"):
        await table.rows(await _orc(table, rows))
