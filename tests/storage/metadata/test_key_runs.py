"""Files that may hold a key: found by search, they are those that a look at every file finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.format.keys import bucket_of_key
from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import Field, Primitive
from lakehouse.storage.metadata.key_runs import KeyRuns
from lakehouse.storage.metadata.run_order import interval

FIELDS = (
    Field(id=1, name="id", type=Primitive("int8"), required=True),
    Field(id=2, name="p", type=Primitive("int8"), required=True),
)
PLAIN = TableSchema(fields=FIELDS, primary_key=("id",), partition_by=("p",), highest_field_id=2)
BY_PARTITION = replace(PLAIN, primary_key=("id", "p"))
KEYS = [bytes([7, at]) for at in range(40)]


@st.composite
def entries(draw: st.DrawFn) -> list[FileEntry]:
    """Files of any runs, buckets and partitions, with key ranges that may reach over each other."""
    found = []
    for number in range(draw(st.integers(0, 25))):
        low, high = sorted(draw(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS))))
        total = draw(st.sampled_from([1, 1, 1, 2, 4]))
        position = (draw(st.integers(1, 6)), 1, draw(st.integers(0, 1)))
        found.append(
            FileEntry(
                path=f"f{number}", size=1, rows=1, at=position[0], lo=position, hi=position,
                min_key=low, max_key=high, bucket=draw(st.integers(0, total - 1)), total_buckets=total,
                partition=(draw(st.sampled_from([b"a", b"b"])),),
            )
        )  # fmt: skip
    return found


def admitted(
    files: Sequence[FileEntry], schema: TableSchema, key: bytes, partition: tuple[bytes, ...]
) -> list[FileEntry]:
    """The files that may hold the key, by looking at each."""
    return [
        entry
        for entry in files
        if entry.bucket == bucket_of_key(key, schema.key_fields, entry.total_buckets)
        and (not schema.key_holds_partition or entry.partition == partition)
        and entry.min_key is not None
        and entry.max_key is not None
        and entry.min_key <= key <= entry.max_key
    ]


@given(entries(), st.sampled_from([PLAIN, BY_PARTITION]), st.sampled_from(KEYS))
def test_the_search_finds_what_a_look_at_every_file_finds(
    files: list[FileEntry], schema: TableSchema, key: bytes
) -> None:
    """Whatever buckets, partitions and ranges there are, files that admit a key are found, newest first."""
    partition = (b"a",) if schema.key_holds_partition else ()
    found = list(KeyRuns(files, schema).newest_first(key, partition))
    expected = admitted(files, schema, key, partition)
    assert {one.path for one in found} == {one.path for one in expected}
    assert len(found) == len(expected)
    assert [interval(one) for one in found] == sorted(map(interval, expected), reverse=True)


def test_the_file_of_a_large_run_is_found_by_search() -> None:
    """A run of many files gives the one whose range has the key, and none where there is a gap."""
    files = [_file(at, min_key=b"%06d" % (10 * at), max_key=b"%06d" % (10 * at + 5)) for at in range(1_000)]
    schema = replace(PLAIN, partition_by=())
    runs = KeyRuns(files, schema)
    assert [one.path for one in runs.newest_first(b"%06d" % 7_773)] == ["f777"]
    assert runs.newest_first(b"%06d" % 7_777) == []
    assert runs.newest_first(b"") == []
    assert runs.newest_first(b"~") == []


def test_files_without_keys_hold_none() -> None:
    """An entry that does not say its range of keys, as of a table without a key, is never found."""
    assert KeyRuns([_file(1)], PLAIN).newest_first(b"a") == []


def _file(at: int, **about: Any) -> FileEntry:
    return FileEntry(path=f"f{at}", size=1, rows=1, at=1, lo=(1, 1, 0), hi=(1, 1, 0), **about)
