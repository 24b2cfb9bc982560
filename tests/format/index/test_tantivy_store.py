"""Tantivy files whose documents are zstd: what a package without zstd can read instead."""

from __future__ import annotations

import json

import pytest

from lakehouse.errors import CorruptionError
from lakehouse.format.index.tantivy_store import META_FILE, without_zstd
from tests.kit.tantivy_samples import sample_files


def test_only_documents_and_their_codec_change() -> None:
    """The files that are searched stay as they are; the index says its documents are not compressed."""
    files = sample_files("english")
    changed = without_zstd(files)
    assert changed.keys() == files.keys()
    different = {path for path in files if files[path] != changed[path]}
    assert different == {path for path in files if path.endswith(".store")} | {META_FILE}
    meta, before = json.loads(changed[META_FILE]), json.loads(files[META_FILE])
    assert before["index_settings"].pop("docstore_compression") == "zstd"
    assert meta["index_settings"].pop("docstore_compression") == "none"
    assert meta == before


def test_files_without_zstd_are_left_alone() -> None:
    """An index that any tantivy reads comes back as it is, and so does one that was changed already."""
    changed = without_zstd(sample_files("chinese"))
    assert without_zstd(changed) is changed


def test_a_store_holds_its_first_document() -> None:
    """Of each segment the first document stays, uncompressed: its row number, after field and type."""
    changed = without_zstd(sample_files("english"))
    rows = {int.from_bytes(data[6:14], "little") for path, data in changed.items() if path.endswith(".store")}
    assert rows == {0, 4, 8}


@pytest.mark.parametrize("meta", [b"", b"[]", b"{}", b'{"index_settings":{"docstore_compression":7}}'])
def test_an_index_that_does_not_say_how_it_is_stored(meta: bytes) -> None:
    """Without sound settings the files are refused, or left for tantivy to refuse."""
    files = {**sample_files("chinese"), META_FILE: meta}
    if b"docstore_compression" in meta:
        assert without_zstd(files) is files
        return
    with pytest.raises(CorruptionError, match=r"meta\.json"):
        without_zstd(files)


def test_a_damaged_store_is_an_error() -> None:
    """A document store that is cut off or overwritten anywhere is an error or another store, no crash."""
    files = sample_files("chinese")
    (path,) = (path for path in files if path.endswith(".store"))
    data = files[path]
    for cut in range(len(data)):
        with pytest.raises(CorruptionError, match="is damaged"):
            without_zstd({**files, path: data[:cut]})
    for at in range(len(data)):
        for value in (0, 0xFF):
            try:
                without_zstd({**files, path: data[:at] + bytes([value]) + data[at + 1 :]})
            except CorruptionError as error:
                assert path in str(error)  # noqa: PT017 - either outcome is right
