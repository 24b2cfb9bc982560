"""Lookups of random histories against a plain model, and what they read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.metadata.file_entry import FileEntry, FileFormat, RowKind
from lakehouse.storage.scan.lookup import Lookup
from tests.kit.memory_runs import MemoryRuns, live_rows
from tests.kit.run_histories import ROW_KEYS, SCHEMA, History, histories, run_table


def overlapping(
    *runs: dict[int, tuple[RowKind, int | None, str | None]], **facts: Any
) -> tuple[list[FileEntry], MemoryRuns]:
    """A file for each run, oldest first."""
    files = MemoryRuns(SCHEMA, piece_rows=10)
    entries = [
        files.add(run_table(rows), lo=(at, 1, 0), hi=(at, 1, 0), **facts) for at, rows in enumerate(runs, 1)
    ]
    return entries, files


@settings(max_examples=80, deadline=None)
@given(history=histories(), keys=st.lists(ROW_KEYS, max_size=30), columns=st.sampled_from([None, ("b",), ()]))
async def test_lookups_are_the_model(
    history: History, keys: list[int], columns: tuple[str, ...] | None
) -> None:
    """Of any keys, repeated or unknown ones too, the newest rows that are not deleted are found, by key."""
    entries, runs, commits = history
    model = {row["id"]: row for row in live_rows(SCHEMA, commits)}
    lookup = Lookup(entries, SCHEMA, runs)
    names = SCHEMA.arrow().names if columns is None else columns
    expected = [{name: model[key][name] for name in names} for key in sorted(set(keys) & set(model))]
    found = await lookup.get_many(pa.table({"id": pa.array(keys, pa.int64())}), columns=columns)
    assert found.num_rows == len(expected)
    assert columns == () or found.to_pylist() == expected
    for key in keys[:5]:
        row = model.get(key)
        wanted = None if row is None else {name: row[name] for name in names}
        assert await lookup.get({"id": key}, columns=columns) == wanted


@pytest.mark.parametrize("kind", list(FileFormat))
async def test_many_keys_read_pieces_once(kind: FileFormat) -> None:
    """Keys that share a piece are read together, whatever the format."""
    entries, runs = overlapping({key: (RowKind.INSERT, key, "x") for key in range(0, 200, 2)}, format=kind)
    found = await Lookup(entries, SCHEMA, runs).get_many([{"id": key} for key in range(200)])
    assert found.column("id").to_pylist() == list(range(0, 200, 2))
    assert [pieces for _, pieces, *_ in runs.reads] == [tuple(range(10))]
    assert runs.gets == []


async def test_a_get_stops_at_the_newest_row() -> None:
    """A run that has the key, or deletes it, is the last that is looked into."""
    row = (RowKind.INSERT, 1, "x")
    entries, runs = overlapping(
        {1: row, 2: row, 3: row}, {1: row, 3: row}, {1: (RowKind.DELETE, None, None), 3: row}
    )
    lookup = Lookup(entries, SCHEMA, runs)
    assert await lookup.get({"id": 1}) is None
    assert [path for path, _ in runs.gets] == ["f2"]
    assert await lookup.get({"id": 2}) == {"id": 2, "a": 1, "b": "x"}
    assert [path for path, _ in runs.gets[1:]] == ["f2", "f1", "f0"]


async def test_keys_found_in_newer_runs_are_not_sought_in_older_ones() -> None:
    """Many keys go down the runs as one key does: the older run is asked for the rest only."""
    row = (RowKind.INSERT, 1, "x")
    entries, runs = overlapping(dict.fromkeys(range(100), row), dict.fromkeys(range(5, 100), row))
    found = await Lookup(entries, SCHEMA, runs).get_many([{"id": key} for key in range(100)])
    assert found.num_rows == 100
    assert [(path, pieces) for path, pieces, *_ in runs.reads] == [("f1", tuple(range(10))), ("f0", (0,))]


async def test_keys_outside_every_range_open_nothing() -> None:
    """Files whose range of keys has none of the keys are not opened."""
    entries, runs = overlapping({10: (RowKind.INSERT, 1, "x"), 20: (RowKind.INSERT, 1, "x")})
    lookup = Lookup(entries, SCHEMA, runs)
    assert await lookup.get({"id": 5}) is None
    assert (await lookup.get_many([{"id": 5}, {"id": 21}])).num_rows == 0
    assert runs.opened == []


async def test_files_of_other_buckets_are_not_opened() -> None:
    """A key is sought in its bucket alone."""
    entries, runs = overlapping({key: (RowKind.INSERT, key, "x") for key in range(50)})
    spread = [replace(entries[0], bucket=bucket, total_buckets=4) for bucket in range(4)]
    for key in range(10):
        assert await Lookup(spread, SCHEMA, runs).get({"id": key}) == {"id": key, "a": key, "b": "x"}
    assert len(runs.opened) == 10
    found = await Lookup(spread, SCHEMA, runs).get_many([{"id": key} for key in range(50)])
    assert found.column("id").to_pylist() == list(range(50))


async def test_a_key_has_all_its_columns() -> None:
    """Too few, too many or unknown columns are refused with the names of the right ones."""
    lookup = Lookup([], SCHEMA, MemoryRuns(SCHEMA))
    with pytest.raises(InvalidInputError, match="a key has the columns id"):
        await lookup.get({"id": 1, "a": 2})
    with pytest.raises(InvalidInputError, match="a key has the columns id"):
        await lookup.get({})
