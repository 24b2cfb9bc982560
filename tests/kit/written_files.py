"""What a write left in a store, read back, and what must hold of it."""

from __future__ import annotations

import dataclasses
import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.cache import CacheBudget
from lakehouse.format.keys.buckets import bucket_of
from lakehouse.format.keys.order_value import decode_value, encode_value
from lakehouse.format.keys.partition_path import partition_dir
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.metadata.file_entry import KIND_COLUMN, FileEntry, FileFormat, RowKind
from lakehouse.format.schema.table_options import TableOptions
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import Field, Primitive, StringType
from lakehouse.io import ObjectStore
from lakehouse.storage.files.open import open_run
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.metadata.caches import RunCaches

ROOT = "db/t-00000000"
FIELDS = (
    Field(id=1, name="id", type=Primitive("int64"), required=True),
    Field(id=2, name="day", type=Primitive("date"), required=True),
    Field(id=3, name="name", type=StringType(), required=True),
    Field(id=4, name="amount", type=Primitive("double")),
)
OPTIONS = TableOptions()


def schema_of(
    *, primary_key: Sequence[str] = ("id",), partition_by: Sequence[str] = (), buckets: int = 1
) -> TableSchema:
    """A table of :data:`FIELDS`."""
    return TableSchema(
        id=3,
        fields=FIELDS,
        primary_key=tuple(primary_key),
        partition_by=tuple(partition_by),
        buckets=buckets,
        highest_field_id=4,
    )


def options_of(
    *, buffer_bytes: int = 1 << 28, target_bytes: int = 1 << 27, sst: bool = False
) -> TableOptions:
    """Options with sizes below what users may set, so that few rows make many files."""
    return dataclasses.replace(
        OPTIONS,
        write_buffer_bytes=buffer_bytes,
        file_target_bytes=target_bytes,
        file_format_level0=FileFormat.SSTABLE if sst else FileFormat.PARQUET,
    )


async def keys_in(store: ObjectStore) -> list[str]:
    """Every object there is."""
    return [meta.key async for meta in store.list()]


async def read_file(store: ObjectStore, entry: FileEntry, schema: TableSchema) -> list[dict[str, Any]]:
    """The rows of a file, after a check of the entry against them."""
    data = (await store.get(f"{ROOT}/{entry.path}")).data
    assert (entry.size, entry.checksum) == (len(data), google_crc32c.value(data))
    if entry.format is FileFormat.PARQUET:
        table = pq.read_table(io.BytesIO(data))
    else:
        reader = await open_run(store, ROOT, entry, schema, RunCaches(CacheBudget()))
        table = await reader.read(schema.fields, kinds=True)
    kinds = (
        table.column(KIND_COLUMN).to_pylist()
        if KIND_COLUMN in table.column_names
        else [RowKind.INSERT] * table.num_rows
    )
    assert entry.rows == len(kinds)
    assert entry.deletes == kinds.count(RowKind.DELETE)
    assert (entry.schema_id, entry.total_buckets, entry.lo, entry.at) == (
        schema.id,
        schema.buckets,
        None,
        None,
    )
    directory = f"{partition_dir(schema.partition_fields, entry.partition)}/" if entry.partition else ""
    assert entry.path.startswith(f"data/{directory}bucket-{entry.bucket}/")
    found = table.select(schema.arrow().names).to_pylist()
    rows = [{**row, KIND_COLUMN: kind} for row, kind in zip(found, kinds, strict=True)]
    if schema.primary_key:
        _check_keys(entry, rows, schema)
    _check_stats(entry, rows, schema)
    for row in rows:
        if entry.partition:
            found = tuple(encode_value(row[one.name], one.type) for one in schema.partition_fields)
            assert found == entry.partition
    return rows


def _check_keys(entry: FileEntry, rows: list[dict[str, Any]], schema: TableSchema) -> None:
    codec = RowKeyCodec(schema.key_fields)
    values = [tuple(row[name] for name in schema.primary_key) for row in rows]
    keys = [codec.encode_one(one) for one in values]
    assert keys == sorted(set(keys))
    assert (entry.min_key, entry.max_key) == (keys[0], keys[-1])
    for one in values:
        assert bucket_of(one, schema.key_fields, schema.buckets) == entry.bucket


def _check_stats(entry: FileEntry, rows: list[dict[str, Any]], schema: TableSchema) -> None:
    for field in schema.fields:
        values = [row[field.name] for row in rows if row[KIND_COLUMN] != RowKind.DELETE]
        there = [one for one in values if one is not None]
        if not values:
            continue
        stats = entry.stats[field.id]
        assert stats.nulls == len(values) - len(there)
        if there and stats.exact:
            assert stats.low is not None
            assert stats.high is not None
            assert decode_value(stats.low, field.type) == min(there)
            assert decode_value(stats.high, field.type) == max(there)


async def fold_files(
    store: ObjectStore, written: UploadedFiles, schema: TableSchema
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows by key that a reader of these files alone has to see."""
    units: dict[object, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for entry in written.entries:
        unit = (entry.partition, entry.bucket) if schema.key_holds_partition else entry.bucket
        units[unit][entry.run] += await read_file(store, entry, schema)
    state: dict[tuple[Any, ...], dict[str, Any]] = {}
    for runs in units.values():
        for run in sorted(runs):
            keys = [tuple(row[name] for name in schema.primary_key) for row in runs[run]]
            assert len(keys) == len(set(keys)), "files of one run share a key"
            for key, row in zip(keys, runs[run], strict=True):
                if row[KIND_COLUMN] == RowKind.DELETE:
                    state[key] = dict.fromkeys(row)
                else:
                    state[key] = {name: row[name] for name in row if name != KIND_COLUMN}
    return state


def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of :data:`FIELDS` as Arrow."""
    return pa.Table.from_pylist(list(rows), schema=schema_of().arrow())
