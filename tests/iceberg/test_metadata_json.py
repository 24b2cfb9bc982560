"""Metadata files of versions 1 to 3, whole, damaged, and made of nonsense."""

from __future__ import annotations

import contextlib
import copy
import gzip
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, FormatError, UnsupportedVersionError
from lakehouse.iceberg import metadata_json
from lakehouse.iceberg.metadata import PartitionField
from lakehouse.iceberg.metadata_json import decode_metadata
from tests.kit.iceberg_metadata import FIRST, SECOND, document, encoded

_PATH = "s3://bucket/wh/t/metadata/v3.metadata.json"


def _decoded(made: dict[str, Any]) -> Any:
    return decode_metadata(encoded(made), _PATH)


def test_every_member_of_version_2_is_read() -> None:
    """Schemas, specs, orders, snapshots, logs and references have what the file says."""
    table = _decoded(document())
    assert (table.format_version, table.location, table.last_sequence_number) == (2, "s3://bucket/wh/t", 34)
    assert [schema.names for schema in table.schemas.values()] == [("x",), ("x", "y")]
    assert table.current_schema.identifier_ids == (1,)
    assert table.default_spec.fields == (
        PartitionField(source_ids=(1,), field_id=1000, name="x_bucket", transform="bucket[4]"),
    )
    assert table.sort_orders[table.default_sort_order_id].fields[0].null_order == "nulls-first"
    assert list(table.snapshots) == [FIRST, SECOND]
    assert table.snapshots[SECOND].parent_id == FIRST
    assert table.current_snapshot is table.snapshots[SECOND]
    assert table.refs["old"].kind == "tag"
    assert table.refs["old"].max_ref_age_ms == 10
    assert table.metadata_log == ((1515100, "s3://bucket/wh/t/metadata/v1.json"),)
    assert table.next_row_id is None


def test_version_1_is_shown_as_later_versions_are() -> None:
    """One schema and one spec become lists, the current snapshot is main, and sequence numbers are 0."""
    table = _decoded(document(1))
    assert (table.current_schema_id, table.default_spec_id, table.last_sequence_number) == (0, 0, 0)
    assert table.uuid is None
    assert table.refs["main"].snapshot_id == SECOND
    assert {snapshot.sequence for snapshot in table.snapshots.values()} == {0}
    assert table.sort_orders[0].fields == ()


def test_partition_fields_without_ids_count_from_1000() -> None:
    """Version 1 need not tell ids of partition fields."""
    fields = [
        {"name": "a", "transform": "identity", "source-id": 1},
        {"name": "b", "transform": "day", "source-id": 2},
    ]
    table = _decoded(document(1, partition_spec=fields))
    assert [field.field_id for field in table.default_spec.fields] == [1000, 1001]


def test_a_snapshot_of_version_1_may_name_its_manifests() -> None:
    """Without a manifest list, a snapshot has the paths of its manifests."""
    made = document(1)
    del made["snapshots"][1]["manifest-list"]
    made["snapshots"][1]["manifests"] = ["a.avro", "b.avro"]
    snapshot = _decoded(made).current_snapshot
    assert (snapshot.manifest_list, snapshot.manifests) == (None, ("a.avro", "b.avro"))


def test_version_3_has_row_ids_and_several_sources() -> None:
    """The next row id, a snapshot's first row id, and source-ids of a transform of several columns."""
    spec = {
        "spec-id": 0,
        "fields": [{"name": "z", "transform": "zorder", "source-ids": [1, 2], "field-id": 1000}],
    }
    made = document(3, partition_specs=[spec])
    made["snapshots"][1] |= {"first-row-id": 7, "added-rows": 13}
    table = _decoded(made)
    assert (table.next_row_id, table.current_snapshot.first_row_id) == (20, 7)
    assert table.default_spec.fields[0].source_ids == (1, 2)


@pytest.mark.parametrize("none", [-1, None])
def test_minus_one_is_no_snapshot(none: int | None) -> None:
    """A table without rows has no current snapshot, however its writer says so."""
    table = _decoded(document(current_snapshot_id=none, refs={}, snapshots=[]))
    assert table.current_snapshot is None
    assert table.refs == {}


@pytest.mark.parametrize("members", [1, 3])
def test_compressed_files_are_known_by_their_bytes(members: int) -> None:
    """Whatever its name, a file of one gzip member or of several is decompressed."""
    data = encoded(document())
    step = -(-len(data) // members)
    parts = [data[at : at + step] for at in range(0, len(data), step)]
    table = decode_metadata(b"".join(map(gzip.compress, parts)), _PATH)
    assert table == decode_metadata(data, _PATH)


def test_a_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decompression ends at the limit, whatever a file would become."""
    monkeypatch.setattr(metadata_json, "METADATA_BYTES_MAX", 1_000)
    with pytest.raises(CorruptionError, match="has more than 1,000 bytes"):
        decode_metadata(gzip.compress(bytes(100_000)), _PATH)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_truncated_file_is_corruption(compressed: bool) -> None:
    """No beginning of a file passes for one."""
    data = encoded(document(), compressed=compressed)
    for size in range(0, len(data), 7):
        with pytest.raises(CorruptionError, match="restore the file"):
            decode_metadata(data[:size], _PATH)


@pytest.mark.parametrize("version", [4, 5, 1000])
def test_later_versions_are_refused(version: int) -> None:
    """Version 4 and up are no damage: the message says what can be read."""
    with pytest.raises(UnsupportedVersionError, match=f"format version {version}, and versions 1 to 3"):
        _decoded(document() | {"format-version": version})


def test_version_0_is_corruption() -> None:
    """There was no version before the first."""
    with pytest.raises(CorruptionError, match="format-version"):
        _decoded(document() | {"format-version": 0})


@pytest.mark.parametrize(
    "name",
    [
        *("format-version", "location", "last-updated-ms", "last-column-id", "table-uuid", "schemas"),
        *("current-schema-id", "partition-specs", "default-spec-id", "last-sequence-number"),
    ],
)
def test_a_missing_member_is_named(name: str) -> None:
    """A member that version 2 must have is named where it is missing."""
    with pytest.raises(CorruptionError, match=name) as caught:
        _decoded(document(without=(name,)))
    assert caught.value.context["key"] == _PATH


def test_version_3_must_have_a_next_row_id() -> None:
    """Row ids cannot be told without it."""
    with pytest.raises(CorruptionError, match="next-row-id"):
        _decoded(document(3, without=("next-row-id",)))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"current_schema_id": 7}, "current-schema-id"),
        ({"default_spec_id": 7}, "default-spec-id"),
        ({"default_sort_order_id": 7}, "default-sort-order-id"),
        ({"current_snapshot_id": 7}, "current-snapshot-id"),
        ({"refs": {"a": {"snapshot-id": 7, "type": "tag"}}}, "refs.a.snapshot-id"),
        ({"refs": {"main": {"snapshot-id": FIRST, "type": "branch"}}}, "refs.main"),
        ({"refs": {"main": {"snapshot-id": SECOND, "type": "limb"}}}, "refs.main.type"),
    ],
)
def test_ids_that_refer_to_nothing_are_found(changes: dict[str, Any], field: str) -> None:
    """A dangling id is an error of the file that has it, with the member's place."""
    with pytest.raises(CorruptionError) as caught:
        _decoded(document(**changes))
    assert caught.value.context["field"] == field


@pytest.mark.parametrize("name", ["schemas", "partition-specs", "snapshots", "sort-orders"])
def test_ids_are_unique(name: str) -> None:
    """Two objects of one id cannot be told apart."""
    made = document()
    made[name].append(made[name][0])
    with pytest.raises(CorruptionError, match=f"{name} must be objects with an id of their own"):
        _decoded(made)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inner:
        yield from _places(item, (*path, name))


_PLACES = sorted(_places(document(3)), key=str)
_NONSENSE = st.sampled_from([None, True, -5, 2**70, 1.5, "", "x" * 50, [], [[]], {}, {"a": 1}])


@given(place=st.sampled_from(_PLACES), value=_NONSENSE)
def test_nonsense_anywhere_is_read_or_refused(place: tuple[Any, ...], value: Any) -> None:
    """Whatever stands in place of a member, the answer is a table or an error of the format."""
    made = copy.deepcopy(document(3))
    at: Any = made
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    with contextlib.suppress(FormatError):
        assert _decoded(made).path == _PATH
