"""What ``--source auto`` takes a place for, whatever lies there and however much."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse.sync
from lakehouse.storage.indexes import SourceKind, source_kind
from lakehouse.testing import RecordingStore, memory_store
from tests.cli.tables.test_commands import Run, run  # noqa: F401 - fixture

FILE = "00000000-0000-0000-0000-{:012x}"
REGION = "data/greptime/public/1024/1024_0000000002"


async def judged(*keys: str) -> tuple[SourceKind, int]:
    """What a store with these objects is taken for, and the requests that took."""
    store = RecordingStore(memory_store())
    for key in keys:
        await store.put(key, b"")
    store.clear()
    return await source_kind(store), len(store.calls)


@pytest.mark.parametrize("files", [0, 1_200])
async def test_many_data_files_hide_no_region(files: int) -> None:
    """GreptimeDB's directory is one however many data files come before the first index file."""
    data = [f"{REGION}/{FILE.format(one)}.parquet" for one in range(files)]
    assert await judged(f"{REGION}/index/{FILE.format(0)}.puffin", *data) == (SourceKind.GREPTIME, 6)


@pytest.mark.parametrize("files", [0, 1_200])
async def test_many_objects_hide_no_database(files: int) -> None:
    """A warehouse is one although names of tables before its marker have a thousand objects."""
    objects = [f"db/Orders-01234567/index/{FILE.format(one)}.puffin" for one in range(files)]
    assert await judged("db/_database", "another/x", *objects) == (SourceKind.TABLES, 3)


@pytest.mark.parametrize(
    "keys",
    [
        (),
        ("a.puffin",),
        ("x/y/z.puffin", "_database"),
        tuple(f"{one:04}/{two}/a.puffin" for one in range(100) for two in range(3)),
    ],
)
async def test_anything_else_is_files(keys: tuple[str, ...]) -> None:
    """Where neither is, all puffin files count; that takes few requests, whatever lies there."""
    kind, requests = await judged(*keys)
    assert kind is SourceKind.PREFIX
    assert requests <= 1 + 100 + 32


async def test_other_directories_hide_no_region() -> None:
    """The directory that GreptimeDB keeps its data in is looked into before others."""
    others = [f"backup-{one:03}/{two}/x" for one in range(50) for two in range(3)]
    assert (await judged(f"{REGION}/index/{FILE.format(0)}.puffin", *others))[0] is SourceKind.GREPTIME


def test_what_is_said_of_a_large_bucket_is_true(tmp_path: Path, run: Run) -> None:  # noqa: F811
    """A warehouse of more than a thousand objects gives the indexes of its newest snapshots alone."""
    with lakehouse.sync.connect(str(tmp_path)) as lake:
        lake.create_database("db")
        schema = pa.schema({"id": pa.int64(), "name": pa.string()})
        options = {"index.min_rows": 1, "compaction.auto": "off"}
        table = lake.create_table("db.Big", schema, indexes={"name": "inverted"}, options=options)
        table.append([{"id": 1, "name": "a"}])
        table.overwrite([{"id": 2, "name": "b"}])
    (root,) = tmp_path.glob("db/Big-*")
    for number in range(1_000):
        (root / f"data/{number:04}").touch()
    done = run("index-metas", tmp_path, "--format", "ndjson")
    assert len(done.lines) == 1
