"""Several uploads are one value, which knows all objects that would have to be deleted."""

from __future__ import annotations

import dataclasses

from lakehouse.format.metadata import IndexRef
from lakehouse.storage.files.uploaded_files import UploadedFiles, delete_files
from lakehouse.testing.faults import Fault, FaultKind, FaultyStore
from lakehouse.testing.stores import memory_store
from tests.kit.committers import entry


def test_several_uploads_are_one() -> None:
    """Files follow each other, rows are summed, and the earliest answer counts."""
    first = UploadedFiles(entries=(entry("b"), entry("a")), rows=5, first_upload_ms=9)
    second = UploadedFiles(entries=(entry("c"),), rows=2, first_upload_ms=7)
    together = UploadedFiles.joined(iter([first, UploadedFiles(), second]))
    assert [file.path for file in together.entries] == ["b", "a", "c"]
    assert (together.rows, together.bytes, together.first_upload_ms) == (7, 30, 7)


def test_no_uploads_are_none() -> None:
    """Nothing and several nothings are the same."""
    assert UploadedFiles.joined([]) == UploadedFiles.joined([UploadedFiles()]) == UploadedFiles()


def test_index_files_are_among_the_objects() -> None:
    """Every object that was uploaded has its path there, index files too."""
    indexed = dataclasses.replace(entry("a"), index=IndexRef(path="a.puffin", size=7))
    assert UploadedFiles(entries=(indexed, entry("b"))).paths == ["a", "b", "a.puffin"]


async def test_files_that_cannot_be_deleted_are_left_to_others() -> None:
    """A store that refuses is no error: the files are orphans, which are swept later."""
    inner = memory_store()
    await inner.put("db/t/data/a", b"a")
    store = FaultyStore(inner, [Fault(kind=FaultKind.FAIL_BEFORE, verb="delete_batch")])
    await delete_files(store, "db/t", ["data/a"])
    assert (await inner.get("db/t/data/a")).data == b"a"
