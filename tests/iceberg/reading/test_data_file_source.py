"""Data files of tasks that are missing, cut off, or not where they may be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.io import measure
from tests.kit.iceberg_files import MadeTable, field

_ROWS = pa.table({"id": range(20)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 100}, "100"),
        ({"rows": 19}, "size and rows"),
        ({"format": "avro"}, "no Avro file"),
    ],
)
async def test_a_file_that_is_not_as_said_is_refused(change: dict[str, Any], message: str) -> None:
    """Sizes, rows and formats of the manifest are those of the file, or it is another one."""
    table = MadeTable([field(1, "id", "long")])
    task = await table.data(_ROWS, [1])
    with pytest.raises(FormatError, match=message) as caught:
        await table.rows(replace(task, **change))
    assert task.path in str(caught.value)


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
async def test_a_missing_data_file_is_corruption(kind: Any) -> None:
    """A snapshot without one of its files cannot be read, and the message says what can be."""
    table = MadeTable([field(1, "id", "long")])
    task = replace(await table.data(_ROWS, [1]), path=f"{table.url}/data/gone.x", format=kind)
    with pytest.raises(CorruptionError, match=r"the data file .*gone\.x is missing: .*read a newer snapshot"):
        await table.rows(task)


@pytest.mark.parametrize("kind", ["positions", "equality"])
async def test_a_missing_delete_file_is_corruption(kind: str) -> None:
    """Rows that a missing delete file hides are never shown."""
    table = MadeTable([field(1, "id", "long")])
    task = await table.data(_ROWS, [1])
    made = (
        await table.positions([(task.path, 1)])
        if kind == "positions"
        else await table.equality(pa.table({"id": [1]}), [1])
    )
    with pytest.raises(CorruptionError, match=r"delete file .*gone is missing"):
        await table.left(task, replace(made, path=f"{table.url}/data/gone"))


async def test_a_truncated_delete_file_is_corruption() -> None:
    """A delete file that was cut off names itself, and its data file shows nothing."""
    table = MadeTable([field(1, "id", "long")])
    task = await table.data(_ROWS, [1])
    delete = await table.positions([(task.path, 1)])
    place = table.locations.find(delete.path)
    whole = (await place.store.get(place.key)).data
    await place.store.put(place.key, whole[:-20])
    with pytest.raises(CorruptionError) as caught:
        await table.left(task, delete)
    assert place.key in str(caught.value)


async def test_a_file_outside_of_the_table_is_refused() -> None:
    """Metadata cannot have any file read: the error says what to pass."""
    table = MadeTable([field(1, "id", "long")])
    task = replace(await table.data(_ROWS, [1]), path="memory://elsewhere/secret.parquet")
    with pytest.raises(InvalidInputError, match=r"pass locations=\['memory://elsewhere'\]"):
        await table.rows(task)


async def test_deletes_of_files_that_are_not_read_are_not_fetched() -> None:
    """A scan whose limit is reached opens no more delete files."""
    table = MadeTable([field(1, "id", "long")])
    tasks = []
    for _ in range(6):
        task = await table.data(_ROWS, [1])
        tasks.append(replace(task, deletes=(await table.positions([(task.path, 1)]),)))
    with measure() as cost:
        assert len(await table.rows(*tasks, limit=3)) == 3
    assert cost.by_kind() == {"get": 2}


async def test_tables_that_share_a_cache_do_not_share_files() -> None:
    """Files of the same key in different places are told apart."""
    one, other = (MadeTable([field(1, "id", "long")]) for _ in range(2))
    other.reading = replace(other.reading, caches=one.reading.caches)
    first = await one.data(pa.table({"id": [1]}), [1])
    second = await other.data(pa.table({"id": [2]}), [1])
    assert [first.path.rpartition("/")[2], first.size] == [second.path.rpartition("/")[2], second.size]
    assert [await one.rows(first), await other.rows(second)] == [[{"id": 1}], [{"id": 2}]]


@pytest.mark.parametrize("kind", ["vector", "positions", "equality"])
async def test_no_flipped_bit_of_a_delete_file_ends_in_a_foreign_error(kind: str) -> None:
    """Damage anywhere in a delete file is an error of the format, or leaves rows of the file."""
    table = MadeTable([field(1, "id", "long")])
    task = await table.data(_ROWS, [1])
    if kind == "vector":
        delete = (await table.vectors({task.path: [1, 5]}))[task.path]
    elif kind == "positions":
        delete = await table.positions([(task.path, 1), (task.path, 5)])
    else:
        delete = await table.equality(pa.table({"id": [1, 5]}), [1])
    place = table.locations.find(delete.path)
    whole = (await place.store.get(place.key)).data
    for at in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        copy = replace(delete, path=await table.put(bytes(damaged)))
        try:
            found = [row["id"] for row in await table.left(task, copy)]
        except (FormatError, InvalidInputError):
            continue
        assert set(found) <= set(range(20))
