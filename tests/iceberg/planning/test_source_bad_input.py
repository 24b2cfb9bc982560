"""Planning of tables that are damaged, of the future, or empty: errors that name the file."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakehouse import iceberg
from lakehouse.errors import (
    CorruptionError,
    FormatError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    UnsupportedVersionError,
)
from tests.kit.avro_files import SYNC, avro_file, encode_number
from tests.kit.iceberg_tables import (
    EXISTING,
    Item,
    Manifest,
    Snapshot,
    Table,
    bound_bytes,
    on_disk,
    with_line,
)

pytestmark = pytest.mark.anyio

_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    schema_id=0,
)
_SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"), spec_id=0)


def _item(number: int, **changed: Any) -> Item:
    bound = bound_bytes(LongType(), number)
    metrics = {
        "value_counts": {1: 1},
        "null_value_counts": {1: 0},
        "lower_bounds": {1: bound},
        "upper_bounds": {1: bound},
    }
    return dataclasses.replace(
        Item(path=f"data/{number}.parquet", partition=(number,), metrics=metrics), **changed
    )


def _manifest(name: str, *items: Item, **changed: Any) -> Manifest:
    return dataclasses.replace(Manifest(name=name, schema=_SCHEMA, spec=_SPEC, items=items), **changed)


def _table(*manifests: Manifest, **changed: Any) -> Table:
    snapshot = Snapshot(id=1, sequence=1, manifests=manifests or (_manifest("one", _item(1), _item(2)),))
    found = Table(schemas=[_SCHEMA], specs=[_SPEC], snapshots=[snapshot])
    return dataclasses.replace(found, **changed)


async def _plan(metadata: str, where: str | None = None, **options: Any) -> list[str]:
    async with await iceberg.open(metadata) as table:
        plan = await table.plan(where=where, **options)
        return [Path(path).name for path in plan.files()["path"].to_pylist()]


async def _refused(
    metadata: str, name: str, kind: type[LakehouseError] = CorruptionError, **options: Any
) -> str:
    """The message of the error, which names the file."""
    with pytest.raises(kind) as caught:
        await _plan(metadata, **options)
    assert name in str(caught.value)
    return str(caught.value)


def _rewrite(metadata: str, name: str, change: Callable[[bytes], bytes]) -> None:
    path = Path(metadata).parent / name
    path.write_bytes(change(path.read_bytes()))


# --- what is missing or damaged ---------------------------------------------------------


@pytest.mark.parametrize("name", ["one.avro", "snap-1-1.avro"])
async def test_a_file_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    """A manifest, or a manifest list, that is gone is damage of the table, and is named."""
    metadata = on_disk(_table(), tmp_path)
    (Path(metadata).parent / name).unlink()
    await _refused(metadata, name)


@pytest.mark.parametrize("name", ["one.avro", "snap-1-1.avro"])
@pytest.mark.parametrize("kept", [0, 3, 4, 40, -40, -16, -1])
async def test_a_file_that_is_cut_off_is_damaged(tmp_path: Path, name: str, kept: int) -> None:
    """A manifest, or a manifest list, of which the end is missing is refused wherever it ends."""
    metadata = on_disk(_table(), tmp_path)
    _rewrite(metadata, name, lambda data: data[:kept])
    await _refused(metadata, name, FormatError)


@pytest.mark.parametrize("difference", [-1, 1, 10_000])
async def test_a_length_that_disagrees_is_an_error(tmp_path: Path, difference: int) -> None:
    """A manifest that is longer or shorter than its list says is not the one that was listed."""
    length = len(Path(on_disk(_table(), tmp_path)).with_name("one.avro").read_bytes())
    manifest = with_line(_manifest("one", _item(1), _item(2)), manifest_length=length + difference)
    await _refused(on_disk(_table(manifest), tmp_path), "one.avro")


@pytest.mark.parametrize("count", ["added_files_count", "existing_files_count", "deleted_files_count"])
async def test_counts_that_disagree_are_an_error(tmp_path: Path, count: str) -> None:
    """A manifest with other numbers of entries than its list says is not planned with."""
    manifest = with_line(_manifest("one", _item(1), _item(2)), **{count: 7})
    assert "7" in await _refused(on_disk(_table(manifest), tmp_path), "one.avro")


async def test_an_unknown_codec_is_named(tmp_path: Path) -> None:
    """A manifest that is compressed by something unknown says by what."""
    metadata = on_disk(_table(), tmp_path)
    _rewrite(metadata, "one.avro", lambda data: data.replace(b"deflate", b"shrinks"))
    assert "shrinks" in await _refused(metadata, "one.avro", FormatError)


@pytest.mark.parametrize("count", [-1, 1 << 20, 1 << 40, (1 << 63) - 1])
async def test_a_count_without_its_records_is_damage(tmp_path: Path, count: int) -> None:
    """A block that promises more records than it has bytes costs no memory for them."""
    metadata = on_disk(_table(), tmp_path)

    def promise(data: bytes) -> bytes:
        header = data[: data.index(SYNC) + len(SYNC)]
        return header + encode_number(count) + encode_number(3) + b"abc" + SYNC

    _rewrite(metadata, "one.avro", promise)
    await _refused(metadata, "one.avro")


@settings(deadline=None)
@given(st.data())
async def test_any_damage_is_an_error_of_ours_or_none(data: st.DataObject) -> None:
    """Bytes of a manifest that changed give another plan, or an error of the engine that names the file."""

    with tempfile.TemporaryDirectory() as directory:
        metadata = on_disk(_table(_manifest("one", _item(1), _item(2), codec="null")), Path(directory))
        path = Path(metadata).parent / "one.avro"
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        assert "one.avro" in await _said(metadata)


async def _said(metadata: str) -> str:
    """The error of a plan; where there is none, the name of the manifest."""
    try:
        await _plan(metadata, "id = 1")
    except LakehouseError as error:
        return str(error)
    return "one.avro"


@pytest.mark.parametrize(
    "changed",
    [{"content": 7}, {"content": -1}, {"status": 9}],
    ids=repr,
)
async def test_entries_that_make_no_sense_are_damage(tmp_path: Path, changed: dict[str, Any]) -> None:
    """An entry with a status or content that there is not is refused, not guessed at."""
    manifest = _manifest("one", _item(1, **changed))
    counts = {"added_files_count": 1, "existing_files_count": 0, "deleted_files_count": 0}
    await _refused(on_disk(_table(with_line(manifest, **counts)), tmp_path), "one.avro")


async def test_an_existing_entry_says_its_sequence_number(tmp_path: Path) -> None:
    """Only an added entry inherits the number, so another one without it is damage."""
    manifest = _manifest("one", _item(1, status=EXISTING, snapshot=1))
    await _refused(on_disk(_table(manifest), tmp_path), "one.avro")


async def test_a_file_of_an_unknown_format_is_no_task(tmp_path: Path) -> None:
    """A data file of a format that there is not is listed, and refused where it would be read."""
    metadata = on_disk(_table(_manifest("one", _item(1, format="CSV"))), tmp_path)
    async with await iceberg.open(metadata) as table:
        plan = await table.plan()
        assert plan.files()["format"].to_pylist() == ["csv"]
        with pytest.raises(InvalidInputError, match=r"1\.parquet is of format csv"):
            plan.tasks()


async def test_rows_that_were_not_counted_keep_the_file(tmp_path: Path) -> None:
    """A file with -1 rows, as imports from elsewhere leave it, may have any."""
    metadata = on_disk(_table(_manifest("one", _item(1, rows=-1), _item(2, rows=0))), tmp_path)
    assert await _plan(metadata, "name = 'x'") == ["1.parquet"]


async def test_a_spec_that_there_is_not_prunes_nothing(tmp_path: Path) -> None:
    """Files of a partition spec that the metadata have not any more are judged by their statistics."""
    manifest = with_line(_manifest("one", _item(1), _item(2)), partition_spec_id=5)
    metadata = on_disk(_table(manifest), tmp_path)
    assert await _plan(metadata, "name = 'x'") == ["1.parquet", "2.parquet"]
    assert await _plan(metadata, "id = 2") == ["2.parquet"]


async def test_a_manifest_without_paths_is_damage(tmp_path: Path) -> None:
    """A manifest whose records have no field for the path is refused."""
    metadata = on_disk(_table(_manifest("one", _item(1), left_out=("file_path",))), tmp_path)
    assert "path" in await _refused(metadata, "one.avro")


async def test_a_manifest_of_other_records_is_damage(tmp_path: Path) -> None:
    """A container file of something else where a manifest should be is refused."""
    other = avro_file({"type": "record", "name": "x", "fields": [{"name": "y", "type": "int"}]}, [[{"y": 1}]])
    manifest = with_line(_manifest("one", _item(1), _item(2)), manifest_length=len(other))
    metadata = on_disk(_table(manifest), tmp_path)
    _rewrite(metadata, "one.avro", lambda _: other)
    await _refused(metadata, "one.avro")


# --- statistics that cannot be used -----------------------------------------------------


@pytest.mark.parametrize("bound", [b"", b"\x01", b"\x01" * 7, b"\x01" * 9, b"\x01" * 1_000_000])
async def test_bounds_of_another_length_keep_the_file(tmp_path: Path, bound: bytes) -> None:
    """A bound that is no value of its column says nothing: the file stays, others are judged."""
    unpartitioned = PartitionSpec(spec_id=0)
    odd = {"lower_bounds": {1: bound}, "upper_bounds": {1: bound}}
    items = (
        _item(1, partition=(), metrics=odd),
        _item(2, partition=()),
        _item(3, partition=()),
    )
    table = _table(_manifest("one", *items, spec=unpartitioned), specs=[unpartitioned])
    assert await _plan(on_disk(table, tmp_path), "id = 2") == ["1.parquet", "2.parquet"]


@pytest.mark.parametrize("length", [1_000, 1_000_000])
async def test_bounds_may_be_huge(tmp_path: Path, length: int) -> None:
    """Bounds as long as whole documents are bounds."""
    unpartitioned = PartitionSpec(spec_id=0)

    def item(number: int, letter: bytes) -> Item:
        ends = {"lower_bounds": {2: letter * length}, "upper_bounds": {2: letter * length + b"z"}}
        return _item(number, partition=(), metrics=ends)

    table = _table(_manifest("one", item(1, b"a"), item(2, b"m"), spec=unpartitioned), specs=[unpartitioned])
    metadata = on_disk(table, tmp_path)
    assert await _plan(metadata, f"name > '{'a' * 20}zz'") == ["2.parquet"]
    assert await _plan(metadata, "name < 'b'") == ["1.parquet"]


# --- tables of the future, and of nothing -----------------------------------------------


async def test_a_transform_that_is_not_known_keeps_everything(tmp_path: Path) -> None:
    """Partition values of a transform of the future prune nothing; statistics still do."""
    metadata = on_disk(_table(), tmp_path)

    def later(data: bytes) -> bytes:
        described = json.loads(data)
        described["partition-specs"][0]["fields"][0]["transform"] = "zorder[7]"
        return json.dumps(described).encode()

    _rewrite(metadata, Path(metadata).name, later)
    assert await _plan(metadata, "id = 2") == ["2.parquet"]
    assert await _plan(metadata, "name = 'x'") == ["1.parquet", "2.parquet"]


async def test_a_version_of_the_future_is_refused(tmp_path: Path) -> None:
    """Metadata of version 4 ask for a newer release, and are named."""
    metadata = on_disk(_table(changed={"format-version": 4}), tmp_path)
    assert "4" in await _refused(metadata, Path(metadata).name, UnsupportedVersionError)


async def test_an_empty_table_has_an_empty_plan(tmp_path: Path) -> None:
    """A table without a snapshot has no files, whatever is asked, and the columns of every plan."""
    metadata = on_disk(_table(snapshots=[]), tmp_path)
    assert await _plan(metadata) == []
    assert await _plan(metadata, "id = 1") == []
    async with await iceberg.open(metadata) as table:
        empty = (await table.plan()).files()
    full_path = on_disk(_table(), tmp_path / "full")
    async with await iceberg.open(full_path) as table:
        full = (await table.plan()).files()
    assert {"path", "spec_id", "partition", "rows", "size", "deletes"} <= set(full.column_names)
    assert empty.column_names == full.column_names


async def test_a_snapshot_without_manifests_has_an_empty_plan(tmp_path: Path) -> None:
    """A table from which everything was deleted has no files."""
    table = _table(snapshots=[Snapshot(id=1, sequence=1, manifests=())])
    assert await _plan(on_disk(table, tmp_path)) == []


async def test_a_snapshot_that_expired_is_not_found(tmp_path: Path) -> None:
    """A snapshot that the metadata do not have any more is named in the error."""
    metadata = on_disk(_table(), tmp_path)
    with pytest.raises(NotFoundError, match="12345"):
        await _plan(metadata, snapshot=12345)


async def test_a_column_that_there_is_not_is_named(tmp_path: Path) -> None:
    """A condition on a column that the table does not have is the caller's error."""
    metadata = on_disk(_table(), tmp_path)
    with pytest.raises(LakehouseError, match="nonsense"):
        await _plan(metadata, "nonsense = 1")


async def test_what_could_not_be_read_is_not_remembered(tmp_path: Path) -> None:
    """A manifest that was damaged, and was put right, is planned with by the same table."""
    metadata = on_disk(_table(), tmp_path)
    path = Path(metadata).parent / "one.avro"
    whole = path.read_bytes()
    async with await iceberg.open(metadata) as table:
        path.write_bytes(whole[:-20])
        with pytest.raises(CorruptionError):
            await table.plan()
        path.write_bytes(whole)
        assert (await table.plan()).files().num_rows == 2
