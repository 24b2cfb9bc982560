"""Columns of a manifest: inheritance, and what version 3 adds."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from lakehouse.errors import CorruptionError
from lakehouse.iceberg.manifests import (
    UNKNOWN,
    ManifestColumns,
    ManifestFile,
    decode_manifest,
    decode_manifest_list,
)
from tests.kit.field_stats import field_stats
from tests.kit.iceberg_tables import (
    ADDED,
    DATA,
    DELETED,
    EQUALITY,
    EXISTING,
    POSITION,
    Item,
    Manifest,
    Snapshot,
    Table,
    table_files,
)

_SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))


def _manifest(items: list[Item], version: int = 2, **more: Any) -> tuple[ManifestColumns, ManifestFile]:
    """A manifest of these entries, and its line in the manifest list."""
    manifest = Manifest(
        name="m",
        schema=_SCHEMA,
        spec=UNPARTITIONED_PARTITION_SPEC,
        items=items,
        version=version,
        snapshot=5,
        sequence=9,
        **more,
    )
    table = Table(
        schemas=[_SCHEMA],
        specs=[UNPARTITIONED_PARTITION_SPEC],
        snapshots=[Snapshot(id=5, sequence=9, manifests=[manifest])],
        version=version,
    )
    _, files = table_files(table, "s3://b/t")
    (line,) = decode_manifest_list(files["metadata/snap-5-1.avro"], key="snap.avro")
    return decode_manifest(files["metadata/m.avro"], key="m.avro"), line


_ITEMS = [
    Item(path="a", rows=10),
    Item(path="b", rows=20, status=EXISTING, snapshot=3, sequence=4),
    Item(path="c", rows=30, status=DELETED, snapshot=4, sequence=2),
    Item(path="d", rows=40, sequence=6),
]


def test_what_an_entry_does_not_say_is_the_manifests() -> None:
    """Added entries without a snapshot or a sequence number have the manifest's; others keep their own."""
    columns, line = _manifest(_ITEMS)
    found = columns.inherited(line)
    assert found.snapshot_id.tolist() == [5, 3, 4, 5]
    assert found.sequence.tolist() == [9, 4, 2, 6]
    assert found.file_sequence.tolist() == [9, 4, 2, 6]
    assert (found.spec_id, found.first_row_id.tolist()) == (0, [UNKNOWN] * 4)


def test_an_old_entry_without_a_sequence_number_is_damage() -> None:
    """An entry that was there before has to say its sequence number; one that is deleted harms nobody."""
    columns, line = _manifest([Item(path="a"), Item(path="b", status=EXISTING, snapshot=3)])
    with pytest.raises(CorruptionError, match=r"m\.avro is damaged: entry 1 was there before"):
        columns.inherited(line)
    columns, line = _manifest([Item(path="b", status=DELETED, snapshot=3)])
    assert columns.inherited(line).sequence.tolist() == [UNKNOWN]


def test_entries_of_version_1_have_sequence_0() -> None:
    """A manifest without sequence numbers has 0 for all, whatever their status and whatever its list says."""
    items = [Item(path="a", snapshot=5), Item(path="b", status=EXISTING, snapshot=3)]
    columns, line = _manifest(items, version=1)
    assert line.sequence == 0
    for sequence in (0, 7):
        found = columns.inherited(dataclasses.replace(line, sequence=sequence))
        assert (found.sequence.tolist(), found.file_sequence.tolist()) == ([0, 0], [0, 0])


def test_old_entries_of_a_list_of_version_1_have_sequence_0() -> None:
    """Entries that were there before inherit a sequence number of 0, as tables that were upgraded have it."""
    columns, line = _manifest([Item(path="b", status=EXISTING, snapshot=3)])
    assert columns.inherited(dataclasses.replace(line, sequence=0)).sequence.tolist() == [0]


def test_rows_are_numbered_from_the_manifests_first_id() -> None:
    """Files without a first row id are numbered one behind the other, and others keep theirs."""
    columns, line = _manifest(_ITEMS, version=3)
    line = dataclasses.replace(line, first_row_id=1000)
    assert columns.inherited(line).first_row_id.tolist() == [1000, 1010, UNKNOWN, 1030]
    assert (
        columns.inherited(dataclasses.replace(line, first_row_id=None)).first_row_id.tolist() == [UNKNOWN] * 4
    )


def test_rows_of_deletes_have_no_ids() -> None:
    """Delete files take part in no numbering."""
    columns, line = _manifest([Item(path="a", content=POSITION)], version=3, delete=True)
    assert (line.content, columns.header_content) == (1, 1)
    assert columns.inherited(dataclasses.replace(line, first_row_id=5)).first_row_id.tolist() == [UNKNOWN]


def test_delete_files_say_what_they_delete() -> None:
    """Equality deletes have their fields, deletion vectors their place and their data file."""
    place = {"referenced_data_file": "d.parquet", "content_offset": 4, "content_size": 50}
    items = [
        Item(path="e.parquet", content=EQUALITY, equality_ids=[1, 3]),
        Item(path="v.puffin", content=POSITION, format="PUFFIN", **place),  # type: ignore[arg-type]
        Item(path="p.avro", content=POSITION, format="AVRO"),
    ]
    columns, _ = _manifest(items, version=3, delete=True)
    assert columns.content.all().tolist() == [EQUALITY, POSITION, POSITION]
    assert columns.equality_ids is not None
    assert columns.equality_ids.at(np.arange(3)) == [(1, 3), None, None]
    assert [columns.formats[at] for at in columns.format.all()] == ["parquet", "puffin", "avro"]
    assert columns.referenced is not None
    assert columns.referenced.at().to_pylist() == [None, "s3://b/t/d.parquet", None]
    assert columns.content_offset.all().tolist() == [UNKNOWN, 4, UNKNOWN]
    assert columns.content_size.all().tolist() == [UNKNOWN, 50, UNKNOWN]


def test_fields_that_are_left_out_are_unknown() -> None:
    """A manifest without optional fields is read, and nothing is known of them."""
    left_out = ["value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"]
    left_out += ["key_metadata", "split_offsets", "equality_ids", "sort_order_id", "column_sizes"]
    columns, _ = _manifest([Item(path="a", content=DATA, status=ADDED)], left_out=left_out)
    stats = field_stats(columns, 1)
    assert (stats.low, stats.high, stats.nulls.tolist(), stats.values.tolist()) == (
        None,
        None,
        [UNKNOWN],
        [UNKNOWN],
    )
    assert (columns.split_offsets, columns.equality_ids, columns.sort_order_id.all().tolist()) == (
        None,
        None,
        [UNKNOWN],
    )


def test_counts_that_were_not_made_are_unknown() -> None:
    """Sizes and counts below zero, as imports from elsewhere have them, are unknown."""
    columns, _ = _manifest([Item(path="a", rows=-1, metrics={"null_value_counts": {1: -1}})])
    assert (columns.records.all().tolist(), field_stats(columns, 1).nulls.tolist()) == ([UNKNOWN], [UNKNOWN])


def test_live_entries_are_those_that_are_not_deleted() -> None:
    """Deleted entries are counted, and are not live."""
    columns, _ = _manifest(_ITEMS)
    assert (columns.status_counts(), columns.live().tolist()) == ((1, 2, 1), [0, 1, 3])
