"""Files split for another number of buckets: the same rows at the same place, or the files as they were."""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from contextlib import nullcontext

import pyarrow as pa
import pytest

from lakehouse.cache import CacheBudget
from lakehouse.config import TableSettings
from lakehouse.errors import CommitUnknownError, ConflictError
from lakehouse.format.keys import buckets_of
from lakehouse.format.metadata import SEQUENCE_COLUMN, FileEntry, Level
from lakehouse.format.schema import SEQUENCE_FIELD
from lakehouse.storage.files.rebucket import Resplit, split_run
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.metadata.caches import RunCaches
from tests.kit.sstable_samples import SCHEMA, rows_of
from tests.kit.stored_runs import ROOT, StoredRuns
from tests.kit.written_files import keys_in

THREE = dataclasses.replace(SCHEMA, buckets=3)


async def written(buckets: int = 1, count: int = 300) -> StoredRuns:
    """One commit of rows, in files of a hundred rows a piece."""
    runs = StoredRuns(dataclasses.replace(SCHEMA, buckets=buckets), parquet_row_group_rows=100)
    await runs.add(rows_of(count))
    return runs


async def split(runs: StoredRuns, entries: list[FileEntry], buckets: int = 3) -> UploadedFiles:
    """The files split into so many buckets."""
    caches = RunCaches(CacheBudget())
    return await split_run(
        runs.store, ROOT, runs.schema, entries, buckets=buckets, caches=caches, settings=TableSettings()
    )


async def ids_in(runs: StoredRuns, entry: FileEntry) -> list[int]:
    """The ids of the rows of a file."""
    reader = await runs.open(entry)
    ids: list[int] = (await reader.read([SCHEMA.field("id")])).column("id").to_pylist()
    return ids


@pytest.mark.parametrize(("before", "after"), [(1, 3), (2, 3), (3, 1)])
async def test_each_row_is_in_the_bucket_of_its_key(before: int, after: int) -> None:
    """Every row is there once, in a file of its new bucket, whatever files it was in."""
    runs = await written(before)
    files = await split(runs, runs.entries, after)
    found = []
    for entry in files.entries:
        ids = await ids_in(runs, entry)
        buckets = buckets_of([pa.chunked_array([ids], pa.int64())], SCHEMA.key_fields, after)
        assert set(buckets.tolist()) == {entry.bucket}
        assert entry.total_buckets == after
        found += ids
    assert sorted(found) == list(range(0, 600, 2))


async def test_the_output_stands_where_the_input_stood() -> None:
    """Positions, number of the run and level are those of the files that were split."""
    runs = await written()
    entry = dataclasses.replace(runs.entries[0], lo=(4, 1, 2), hi=(4, 1, 2), run=2, level=Level.COMPACTED)
    for one in (await split(runs, [entry])).entries:
        assert (one.lo, one.hi, one.run, one.level) == ((4, 1, 2), (4, 1, 2), 2, Level.COMPACTED)


async def test_files_of_a_bucket_share_no_key() -> None:
    """Files of several buckets are merged by key, so that those of each new bucket follow each other."""
    runs = await written(4)
    by_bucket: dict[int, list[FileEntry]] = defaultdict(list)
    for entry in (await split(runs, runs.entries, 2)).entries:
        ids = await ids_in(runs, entry)
        assert ids == sorted(ids)
        by_bucket[entry.bucket].append(entry)
    assert len(by_bucket) == 2
    for files in by_bucket.values():
        assert all((one.max_key or b"") < (two.min_key or b"") for one, two in itertools.pairwise(files))


async def test_deleted_keys_stay_deleted() -> None:
    """Rows that delete keep their kind."""
    runs = StoredRuns(SCHEMA)
    (entry,) = await runs.add(pa.table({"id": pa.array(range(20), pa.int64())}), deletes=True)
    files = (await split(runs, [entry])).entries
    assert [one.rows - one.deletes for one in files] == [0, 0, 0]
    assert sum(one.deletes for one in files) == 20


async def test_rows_keep_the_snapshot_they_came_with() -> None:
    """Among files of several commits a row without a snapshot of its own came with the first of them."""
    runs = await written()
    entry = dataclasses.replace(runs.entries[0], lo=(2, 1, 0), hi=(5, 1, 0))
    for one in (await split(runs, [entry])).entries:
        reader = await runs.open(one)
        found = await reader.read([SEQUENCE_FIELD])
        assert set(found.column(SEQUENCE_COLUMN).to_pylist()) == {2}


async def test_files_that_fit_are_left_as_they_are() -> None:
    """Files of the table's number of buckets are returned, and no request is made."""
    runs = await written()
    added = tuple(runs.entries)
    assert await Resplit(runs.store, ROOT).fitting(added, SCHEMA) == added
    assert runs.store.calls == []


async def test_the_same_files_are_split_once() -> None:
    """Another attempt at a commit gets the same files, and nothing is written again."""
    runs = await written()
    resplit, added = Resplit(runs.store, ROOT), tuple(runs.entries)
    first = await resplit.fitting(added, THREE)
    runs.store.clear()
    assert await resplit.fitting(added, THREE) is first
    assert runs.store.calls == []


async def left_after(error: Exception | None, *, committed: bool) -> tuple[bool, bool]:
    """Whether the files that were split, and those they were split into, are there in the end."""
    runs = await written()
    resplit, added = Resplit(runs.store, ROOT), tuple(runs.entries)
    fitting: tuple[FileEntry, ...] = ()
    with nullcontext() if error is None else pytest.raises(type(error)):
        async with resplit.settled():
            fitting = await resplit.fitting(added, THREE)
            resplit.committed = committed
            if error is not None:
                raise error
    there = set(await keys_in(runs.store))
    kept = [{f"{ROOT}/{entry.path}" for entry in entries} for entries in (added, fitting)]
    assert all(keys <= there or not keys & there for keys in kept)
    return kept[0] <= there, kept[1] <= there


async def test_a_commit_keeps_the_files_it_refers_to() -> None:
    """Made, it refers to the new files; not made, nothing does, and those that were split stay."""
    assert await left_after(None, committed=True) == (False, True)
    assert await left_after(None, committed=False) == (True, False)


async def test_a_failed_commit_takes_the_new_files_back() -> None:
    """Whoever uploaded the files that were split still has them to delete or to commit."""
    assert await left_after(ConflictError("lost"), committed=False) == (True, False)


async def test_all_files_stay_when_the_outcome_is_unknown() -> None:
    """The snapshot may have been made, and then it refers to the new files."""
    assert await left_after(CommitUnknownError("no answer"), committed=False) == (True, True)
