"""Relations: their columns, which never change, and what they say of files, partitions, tags and schemas."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.format.metadata import Ref, RefKind
from lakehouse.format.schema import schema_from_arrow
from lakehouse.storage.table import Table
from lakehouse.storage.tables.relations import (
    files_relation,
    indexes_relation,
    manifests_relation,
    partitions_relation,
    schemas_relation,
    snapshots_relation,
    tags_relation,
)
from tests.kit.table_samples import SNAPSHOT
from tests.kit.worlds import NAME, process, restored

DAY = dt.date(2026, 1, 31)
NEXT = dt.date(2026, 2, 1)
COLUMNS = pa.schema({"id": pa.int32(), "day": pa.date32(), "host": pa.string()})
LAYOUT: dict[str, Any] = {"primary_key": ["day", "id"], "partition_by": "day"}
TIME = dt.datetime.fromtimestamp(SNAPSHOT.time_ms / 1000, dt.UTC)


async def made(**more: Any) -> Table:
    """A table of three rows in two partitions, one of which has another file that deletes a key."""
    lake = process(await restored({}))
    await lake.create_database("db")
    table = await lake.create_table(NAME, COLUMNS, **{**LAYOUT, **more})
    await table.append(
        [{"id": number, "day": day, "host": "a"} for number, day in ((1, DAY), (7, DAY), (2, NEXT))]
    )
    await table.delete(keys=[{"id": 7, "day": DAY}])
    return table


# --- columns --------------------------------------------------------------------------

PINNED = {
    "snapshots": "snapshot parent kind time schema files rows bytes added_files added_rows removed_files "
    "removed_rows tags message token stored_rows",
    "schemas": "schema time columns primary_key partition_by buckets options comment",
    "files": "path bucket level format bytes rows deletes schema snapshot partition min_key max_key "
    "index_bytes index_path indexes stored_rows",
    "indexes": "index target kind options target_key files",
    "partitions": "partition files rows bytes last_snapshot stored_rows",
    "manifests": "path bytes files rows snapshot stored_rows",
    "tags": "name snapshot kind expires",
}
"""Columns that programs go by; later ones come behind them."""


@pytest.mark.parametrize("name", PINNED)
def test_columns_never_change(name: str) -> None:
    """A relation without rows has the columns that it always had, in their order."""
    schema = schema_from_arrow(COLUMNS, **LAYOUT)
    empty = {
        "snapshots": lambda: snapshots_relation([], SNAPSHOT),
        "schemas": lambda: schemas_relation([]),
        "files": lambda: files_relation([], schema),
        "indexes": lambda: indexes_relation([], schema),
        "partitions": lambda: partitions_relation([], schema),
        "manifests": lambda: manifests_relation(dataclasses.replace(SNAPSHOT, manifests=())),
        "tags": lambda: tags_relation(dataclasses.replace(SNAPSHOT, refs={})),
    }[name]()
    assert empty.num_rows == 0
    assert " ".join(empty.column_names).startswith(PINNED[name])


# --- of metadata alone ----------------------------------------------------------------


def test_a_snapshot_is_a_row_with_its_counts_and_tags() -> None:
    """Sums of the state, of what came and of what went are told apart; rows are those that are known."""
    head = dataclasses.replace(SNAPSHOT, refs={"b": Ref(snapshot=12), "a": Ref(snapshot=12)})
    [row] = snapshots_relation([SNAPSHOT], head, {12: 5}).to_pylist()
    assert (row["snapshot"], row["parent"], row["kind"], row["time"]) == (12, 11, "upsert", TIME)
    assert (row["rows"], row["stored_rows"], row["files"], row["bytes"]) == (5, 999_003, 200, 50_000_000)
    assert (row["added_files"], row["added_rows"]) == (1, 3)
    assert (row["removed_files"], row["removed_rows"]) == (1, 1_000)
    assert row["tags"] == ["a", "b"]


def test_rows_that_metadata_do_not_hold_are_null() -> None:
    """A number of rows that only reading would tell is left out, and the first snapshot has no parent."""
    first = dataclasses.replace(SNAPSHOT, parent=None)
    [row] = snapshots_relation([first], SNAPSHOT).to_pylist()
    assert (row["rows"], row["parent"], row["tags"]) == (None, None, [])


def test_a_manifest_is_a_row() -> None:
    """A manifest has its own snapshot; one that the snapshot itself wrote has that."""
    [ref] = SNAPSHOT.manifests
    snapshot = dataclasses.replace(SNAPSHOT, manifests=(ref, dataclasses.replace(ref, at=None)))
    rows = manifests_relation(snapshot).to_pylist()
    assert [row["snapshot"] for row in rows] == [10, 12]
    assert (rows[0]["path"], rows[0]["bytes"], rows[0]["files"]) == (ref.path, 4096, 200)
    assert (rows[0]["rows"], rows[0]["stored_rows"]) == (None, 1_000_000)


def test_tags_and_pins_are_rows_by_name() -> None:
    """A tag has no end, a pin the moment at which it ends."""
    pin = Ref(snapshot=7, kind=RefKind.PIN, expires_ms=SNAPSHOT.time_ms)
    head = dataclasses.replace(SNAPSHOT, refs={"v1": Ref(snapshot=5), "mine": pin})
    assert tags_relation(head).to_pylist() == [
        {"name": "mine", "snapshot": 7, "kind": "pin", "expires": TIME},
        {"name": "v1", "snapshot": 5, "kind": "tag", "expires": None},
    ]


# --- of tables ------------------------------------------------------------------------


async def test_a_schema_is_a_row_with_its_columns_as_sql() -> None:
    """Each column has its number, name, type and whether it must be there; keys and options stand beside."""
    table = await made(options={"delete_grace_s": 7_200}, comment="of hosts")
    view = await table.core.newest()
    [row] = schemas_relation([view.schema_object]).to_pylist()
    assert row["columns"] == [
        {"id": 1, "name": "id", "type": "int", "required": True},
        {"id": 2, "name": "day", "type": "date", "required": True},
        {"id": 3, "name": "host", "type": "string", "required": False},
    ]
    assert (row["primary_key"], row["partition_by"], row["buckets"]) == (["day", "id"], ["day"], 1)
    assert (dict(row["options"])["delete_grace_s"], row["comment"]) == ("7200", "of hosts")


async def test_a_file_is_a_row_with_values_of_the_tables_types() -> None:
    """Keys and partitions are values as rows have them; stored rows and deletes are told apart from rows."""
    view = await (await made()).core.newest()
    files = list(await view.files())
    relation = files_relation(files, view.schema, {files[0].path: 2})
    assert relation.schema.field("min_key").type == pa.struct({"day": pa.date32(), "id": pa.int32()})
    found = sorted(relation.to_pylist(), key=lambda row: (row["snapshot"], row["partition"]["day"]))
    assert [row["partition"]["day"] for row in found] == [DAY, NEXT, DAY]
    assert [(row["min_key"]["id"], row["max_key"]["id"]) for row in found] == [(1, 7), (2, 2), (7, 7)]
    assert [(row["stored_rows"], row["deletes"]) for row in found] == [(2, 0), (1, 0), (1, 1)]
    assert {row["path"]: row["rows"] for row in found} == {
        entry.path: 2 if entry is files[0] else None for entry in files
    }
    assert [row["indexes"] for row in found] == [[], [], []]


async def test_files_of_any_partition_have_none() -> None:
    """Where keys may move, a file of deleted keys belongs to no partition."""
    table = await made(primary_key=["id", "day"], partition_by="host")
    view = await table.core.newest()
    partitions = [row["partition"] for row in files_relation(await view.files(), view.schema).to_pylist()]
    assert partitions == [{"host": "a"}, None]


async def test_a_partition_is_a_row_with_sums_over_its_files() -> None:
    """Partitions come in order, with files, rows and bytes of all, and the newest snapshot of any."""
    view = await (await made()).core.newest()
    files = list(await view.files())
    rows = partitions_relation(files, view.schema, {entry.path: 1 for entry in files}).to_pylist()
    assert [row["partition"] for row in rows] == [{"day": DAY}, {"day": NEXT}]
    assert [(row["files"], row["rows"], row["stored_rows"]) for row in rows] == [(2, 2, 3), (1, 1, 1)]
    assert [row["last_snapshot"] for row in rows] == [3, 2]
    assert sum(row["bytes"] for row in rows) == sum(entry.size for entry in files)


async def test_rows_of_a_partition_are_known_when_those_of_each_file_are() -> None:
    """One file whose rows are not known, or rows in the log, make the number null."""
    view = await (await made()).core.newest()
    files = list(await view.files())
    known = {entry.path: 1 for entry in files}
    for entry in files:
        del known[entry.path]
        rows = partitions_relation(files, view.schema, known)["rows"].to_pylist()
        assert None in rows
        known[entry.path] = 1
    logged = partitions_relation(files, view.schema, known, is_all=False)
    assert logged["rows"].to_pylist() == [None, None]


async def test_an_index_is_a_row_with_the_number_of_files_that_have_it() -> None:
    """Files that were written before an index was added do not count for it."""
    table = await made(indexes={"host": "bloom"}, options={"index.min_rows": 1})
    await table.add_index("lower(host)", "inverted")
    await table.append([{"id": 9, "day": NEXT, "host": "B"}])
    view = await table.core.newest()
    rows = indexes_relation(await view.files(), view.schema).to_pylist()
    assert [(row["index"], row["target"], row["kind"]) for row in rows] == [
        (1, "host", "bloom"),
        (2, "lower(host)", "inverted"),
    ]
    assert rows[0]["files"] > rows[1]["files"] == 1
    assert dict(rows[0]["options"])["false_positive_rate"] == "0.01"
