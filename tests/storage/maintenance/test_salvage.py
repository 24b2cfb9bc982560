"""Salvage of data files: sound rows are kept, at their place, and all others are named."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.config import Settings
from lakehouse.format.metadata import FileEntry, Level
from lakehouse.format.schema import TableSchema, parse_indexes
from lakehouse.storage.maintenance.repair_report import Loss, LossKind
from lakehouse.storage.maintenance.salvage import Salvager
from tests.kit.sstable_samples import SCHEMA, rows_of
from tests.kit.stored_runs import ROOT, StoredRuns
from tests.kit.written_files import keys_in


async def written(schema: TableSchema = SCHEMA) -> StoredRuns:
    """A file of ids 0, 2, … 598 in three row groups, which says in clear what it holds."""
    runs = StoredRuns(schema, parquet_row_group_rows=100, parquet_compression="none", index_min_rows=1)
    rows = rows_of(300)
    notes = [f"note of {number}" for number in rows.column("id").to_pylist()]
    await runs.add(rows.set_column(2, rows.schema.field(2), pa.array(notes)))
    return runs


def salvager(runs: StoredRuns, **how: Any) -> Salvager:
    """A salvager of the table."""
    return Salvager(runs.store, ROOT, runs.schema, Settings.resolve({}, env={}), **{"dry_run": False, **how})


async def damage(runs: StoredRuns, entry: FileEntry, text: bytes) -> None:
    """Turns over a bit where a file says something."""
    key = f"{ROOT}/{entry.path}"
    data = bytearray((await runs.store.get(key)).data)
    data[data.index(text)] ^= 1
    await runs.store.put(key, bytes(data))


async def ids_in(runs: StoredRuns, entry: FileEntry) -> list[int]:
    """The ids of a file's rows."""
    ids: list[int] = (await (await runs.open(entry)).read(SCHEMA.fields)).column("id").to_pylist()
    return ids


async def test_a_sound_file_is_kept() -> None:
    """Its entry is as it was, and nothing is written."""
    runs = await written()
    found = await salvager(runs).file(runs.entries[0])
    assert (found.entries, found.losses, found.rewritten) == (tuple(runs.entries), (), 0)
    assert "put" not in runs.store.kinds()


async def test_the_sound_rows_of_a_damaged_file_are_written_anew() -> None:
    """Rows of its other pieces are in a new file; the damaged piece is a loss, with the range of its keys."""
    runs = await written()
    (entry,) = runs.entries
    await damage(runs, entry, b"note of 250")
    found = await salvager(runs).file(entry)
    (fresh,) = found.entries
    (loss,) = found.losses
    assert await ids_in(runs, fresh) == [*range(0, 200, 2), *range(400, 600, 2)]
    assert (loss.kind, loss.object, loss.rows) == (LossKind.FILE, entry.path, 100)
    assert (loss.first_key, loss.last_key) == ((200,), (398,))
    assert (found.rewritten, found.uploaded.entries) == (1, found.entries)


async def test_a_salvaged_file_stands_where_the_damaged_one_stood() -> None:
    """It has its positions, its run and its level, so that newer and older rows stay so."""
    runs = await written()
    place = {"lo": (3, 1, 0), "hi": (7, 1, 0), "run": 2, "at": 8, "level": Level.BOTTOM}
    entry = dataclasses.replace(runs.entries[0], **place)
    await damage(runs, entry, b"note of 250")
    (fresh,) = (await salvager(runs).file(entry)).entries
    assert (fresh.lo, fresh.hi, fresh.run, fresh.level) == ((3, 1, 0), (7, 1, 0), 2, Level.BOTTOM)
    assert fresh.at is None


async def test_a_damaged_file_is_not_deleted() -> None:
    """Older snapshots refer to it."""
    runs = await written()
    await damage(runs, runs.entries[0], b"note of 250")
    before = set(await keys_in(runs.store))
    await salvager(runs).file(runs.entries[0])
    assert before < set(await keys_in(runs.store))


async def test_a_dry_run_writes_nothing() -> None:
    """It names the same losses, and says that a file would be rewritten."""
    runs = await written()
    (entry,) = runs.entries
    await damage(runs, entry, b"note of 250")
    runs.store.clear()
    would = await salvager(runs, dry_run=True).file(entry)
    assert "put" not in runs.store.kinds()
    done = await salvager(runs).file(entry)
    assert (would.losses, would.rewritten) == (done.losses, done.rewritten)


@pytest.mark.parametrize("data", [None, b"x"])
async def test_a_file_that_cannot_be_opened_is_lost(data: bytes | None) -> None:
    """Nothing takes its place, and all its rows and keys are named."""
    runs = await written()
    (entry,) = runs.entries
    key = f"{ROOT}/{entry.path}"
    await (runs.store.delete(key) if data is None else runs.store.put(key, data))
    found = await salvager(runs).file(entry)
    (loss,) = found.losses
    assert found.entries == ()
    assert (loss.kind, loss.rows, loss.first_key, loss.last_key) == (LossKind.FILE, 300, (0,), (598,))


async def test_a_missing_file_is_lost_without_a_look() -> None:
    """What a listing says of a file is enough."""
    runs = await written()
    (entry,) = runs.entries
    found = salvager(runs).missing(entry, "it is gone")
    assert (found.entries, runs.store.calls) == ((), [])
    assert found.losses == (
        Loss(
            kind=LossKind.FILE,
            object=entry.path,
            reason="it is gone",
            rows=300,
            first_key=(0,),
            last_key=(598,),
        ),
    )


async def test_a_damaged_index_costs_no_row() -> None:
    """The data file is kept without its index, which is named."""
    schema = dataclasses.replace(SCHEMA, indexes=parse_indexes({"note": "bloom"}, SCHEMA.fields))
    runs = await written(schema)
    (entry,) = runs.entries
    assert entry.index is not None
    await runs.store.delete(f"{ROOT}/{entry.index.path}")
    found = await salvager(runs).file(entry)
    assert found.entries == (dataclasses.replace(entry, index=None),)
    assert [(loss.kind, loss.object) for loss in found.losses] == [(LossKind.INDEX, entry.index.path)]


async def test_rows_without_a_key_have_no_range_of_keys() -> None:
    """In a table without a key only the number of lost rows is known."""
    runs = await written(dataclasses.replace(SCHEMA, primary_key=()))
    (entry,) = runs.entries
    await damage(runs, entry, b"note of 250")
    found = await salvager(runs).file(entry)
    (loss,) = found.losses
    assert (loss.rows, loss.first_key, loss.last_key) == (100, None, None)
    assert await ids_in(runs, found.entries[0]) == [*range(0, 200, 2), *range(400, 600, 2)]
